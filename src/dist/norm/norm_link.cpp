// SPDX-License-Identifier: Apache-2.0
#include "dist/norm/norm_link.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <normApi.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <optional>

#include "dist/comm_call.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace litespark::dist {
namespace {

constexpr uint32_t kBufferBytes = 8 << 20;
constexpr unsigned kSocketBytes = 4 << 20;
constexpr uint16_t kBlockSegments = 64;
/// Of a packet, in front of its payload: IP, UDP and NORM's own.
constexpr int kHeaderBytes = 100;
constexpr int kMostSegmentBytes = 8900;
constexpr int kPollMilliseconds = 20;
constexpr auto kLastPatience = std::chrono::milliseconds(500);
/// Ports of sets of ranks, below those that the kernel gives out.
constexpr uint64_t kFirstPort = 16384;
constexpr uint64_t kNumPorts = 16384;
/// The lower bits of a NORM node's number are a rank, from 1, the upper ones its set's.
constexpr int kRankBits = 13;

struct Interface {
  std::string name;
  int mtu = 0;
};

Interface interface_with(const std::string& address) {
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) throw LinkFailure("this host's interfaces cannot be read");
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(all, freeifaddrs);
  for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || one->ifa_addr->sa_family != AF_INET) continue;
    char text[INET_ADDRSTRLEN] = {};
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(one->ifa_addr)->sin_addr, text, sizeof(text));
    if (address != text) continue;
    ifreq request = {};
    std::strncpy(request.ifr_name, one->ifa_name, IFNAMSIZ - 1);
    const int probe = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    const bool is_known = probe >= 0 && ioctl(probe, SIOCGIFMTU, &request) == 0;
    if (probe >= 0) close(probe);
    return {.name = one->ifa_name, .mtu = is_known ? request.ifr_mtu : 1500};
  }
  throw LinkFailure("no interface of this host has the address " + address);
}

}  // namespace

/// In front of a message; the same program runs everywhere.
struct NormLink::Header {
  uint64_t job = 0;
  int64_t number = 0;  ///< of the set's calls, from 1; 0: the sender gives up, and the bytes say why
  int64_t bytes = 0;
  uint64_t hash = 0;  ///< of the bytes
  CallLabel label;
};

class NormLink::Instance {
 public:
  Instance() : handle_(NormCreateInstance(false)) {
    if (handle_ == NORM_INSTANCE_INVALID) throw LinkFailure("NORM does not start");
  }
  ~Instance() { NormDestroyInstance(handle_); }
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;
  NormInstanceHandle handle() const { return handle_; }

 private:
  NormInstanceHandle handle_;
};

/// Ranks that make calls together: one NORM session, where each sends and all hear.
struct NormLink::Group {
  struct Sent {
    int64_t number = 0;
    std::vector<std::byte> bytes;  ///< NORM reads them when it must repeat them
    NormObjectHandle object = NORM_OBJECT_INVALID;
  };
  struct Received {
    Header header;
    std::vector<std::byte> bytes;
  };

  ~Group() {
    NormStopSender(session);
    NormStopReceiver(session);
    NormDestroySession(session);
  }

  NormSessionHandle session = NORM_SESSION_INVALID;
  NormNodeId first_node = 0;  ///< of rank 0
  int64_t number = 0;         ///< of the last call
  std::deque<Sent> sent;
  std::map<std::pair<int, int64_t>, Received> received;  ///< by rank and number, until a call takes them
  std::optional<std::string> farewell;

  bool is_all_heard() const { return sent.empty() || NormGetAckingStatus(session, NORM_NODE_ANY) != NORM_ACK_PENDING; }
};

NormLink::NormLink(const NormOptions& options) : options_(options), bits_per_second_(options.bits_per_second) {
  if (options.size >= 1 << kRankBits) throw LinkFailure("multicast among so many ranks");
  const Interface found = interface_with(options.address);
  interface_ = found.name;
  segment_bytes_ = std::clamp(found.mtu - kHeaderBytes, 256, kMostSegmentBytes);
  instance_ = std::make_unique<Instance>();
}

NormLink::~NormLink() {
  const auto deadline = std::chrono::steady_clock::now() + kLastPatience;
  const auto are_all_heard = [&] {
    return std::all_of(groups_.begin(), groups_.end(), [](const auto& entry) { return entry.second->is_all_heard(); });
  };
  while (!are_all_heard() && std::chrono::steady_clock::now() < deadline) hear_events(kPollMilliseconds);
  groups_.clear();
}

void NormLink::set_rate(double bits_per_second) {
  bits_per_second_ = bits_per_second;
  for (auto& [ranks, group] : groups_) NormSetTxRate(group->session, bits_per_second);
}

NormLink::Group& NormLink::group_of(std::span<const Message> sent, std::span<const Message> received) {
  std::vector<int> ranks = {options_.rank};
  for (const auto messages : {sent, received}) {
    for (const Message& message : messages) ranks.push_back(message.rank);
  }
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  if (const auto found = groups_.find(ranks); found != groups_.end()) return *found->second;
  // The local scope (RFC 2365): routers do not pass it on.
  const uint64_t mixed = XXH3_64bits_withSeed(ranks.data(), ranks.size() * sizeof(int), options_.job);
  const in_addr address = {.s_addr = htonl(0xefff0000u | static_cast<uint32_t>(mixed & 0xffffu))};
  char text[INET_ADDRSTRLEN] = {};
  inet_ntop(AF_INET, &address, text, sizeof(text));
  auto group = std::make_unique<Group>();
  // The kernel gives a socket what comes for its port in any group, hence a port for each set; should two have the
  // same, their nodes are still different ones.
  group->first_node = (static_cast<NormNodeId>(mixed >> 40) & 0x7ffffu) << kRankBits | 1u;
  const auto node_of = [&](int rank) { return group->first_node + static_cast<NormNodeId>(rank); };
  const auto port = static_cast<uint16_t>(kFirstPort + (mixed >> 16) % kNumPorts);
  const NormSessionHandle session = group->session =
      NormCreateSession(instance_->handle(), text, port, node_of(options_.rank));
  if (session == NORM_SESSION_INVALID) throw LinkFailure("no NORM session");
  NormSetMulticastInterface(session, interface_.c_str());
  NormSetTTL(session, 1);
  NormSetRxPortReuse(session, true);
  NormSetMulticastLoopback(session, true);  // ranks of the same host
  NormSetGrttEstimate(session, options_.round_trip_seconds);
  NormSetGrttMax(session, 10 * options_.round_trip_seconds);
  NormSetGrttProbingMode(session, NORM_PROBE_NONE);
  NormSetBackoffFactor(session, 0.0);
  NormSetGroupSize(session, 10);
  NormSetTxRobustFactor(session, -1);  // says what it sent until all have it: some may have been busy for long
  NormSetCongestionControl(session, false);
  NormSetTxRate(session, bits_per_second_);
  // What is kept is this class's choice: see send.
  NormSetTxCacheBounds(session, NormSize{1} << 40, 64, 64);
  NormSetDefaultUnicastNack(session, true);
  NormSetDefaultSyncPolicy(session, NORM_SYNC_ALL);
  NormSetRxLoss(session, options_.lost_percent);
  for (const int rank : ranks) {
    if (rank != options_.rank) NormAddAckingNode(session, node_of(rank));
  }
  const auto segment = static_cast<uint16_t>(segment_bytes_);
  if (!NormStartReceiver(session, kBufferBytes) ||
      !NormStartSender(session, NormGetRandomSessionId(), kBufferBytes, segment, kBlockSegments, 0))
    throw LinkFailure("NORM cannot use " + interface_ + " and " + text);
  NormSetRxSocketBuffer(session, kSocketBytes);
  NormSetTxSocketBuffer(session, kSocketBytes);
  const std::lock_guard lock(mutex_);
  return *groups_.emplace(std::move(ranks), std::move(group)).first->second;
}

void NormLink::transfer(std::span<const Message> sent, std::span<const Message> received, Deadline deadline) {
  check_alive();
  Group& group = group_of(sent, received);
  ++group.number;
  if (!sent.empty()) send(group, sent.front());
  await(group, received, deadline);
}

void NormLink::send(Group& group, const Message& message) {
  // Whoever takes part in a call has what was sent in the one before it.
  while (!group.sent.empty() && group.sent.front().number + 2 <= group.number) {
    NormObjectCancel(group.sent.front().object);
    group.sent.pop_front();
  }
  Group::Sent& sent = group.sent.emplace_back();
  sent.number = group.number;
  sent.bytes.resize(static_cast<size_t>(std::max<int64_t>(message.bytes, 1)));  // NORM knows no empty objects
  if (message.bytes > 0) std::memcpy(sent.bytes.data(), message.data, static_cast<size_t>(message.bytes));
  const Header header = {.job = options_.job,
                         .number = group.number,
                         .bytes = message.bytes,
                         .hash = XXH3_64bits(sent.bytes.data(), sent.bytes.size()),
                         .label = message.label};
  sent.object =
      NormDataEnqueue(group.session, reinterpret_cast<const char*>(sent.bytes.data()),
                      static_cast<uint32_t>(sent.bytes.size()), reinterpret_cast<const char*>(&header), sizeof(header));
  if (sent.object == NORM_OBJECT_INVALID) throw LinkFailure("NORM takes no message");
  NormSetWatermark(group.session, sent.object, true);
}

void NormLink::await(Group& group, std::span<const Message> received, Deadline deadline) {
  const auto is_missing = [&](const Message& message) {
    return !group.received.contains({message.rank, group.number});
  };
  while (std::any_of(received.begin(), received.end(), is_missing)) {
    check_alive();
    if (group.farewell) throw LinkFailure(*group.farewell);
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) {
      std::vector<int> late;
      for (const Message& message : received) {
        if (is_missing(message)) late.push_back(message.rank);
      }
      throw LinkFailure(late_text(late));
    }
    hear_events(static_cast<int>(std::min<int64_t>(left.count(), kPollMilliseconds)));
  }
  for (const Message& message : received) {
    auto node = group.received.extract({message.rank, group.number});
    const Group::Received& found = node.mapped();
    if (!found.header.label.is_same_call(message.label) || found.header.bytes != message.bytes)
      throw LinkFailure(other_call_text(message.rank, found.header.label));
    if (message.bytes > 0) std::memcpy(message.data, found.bytes.data(), static_cast<size_t>(message.bytes));
  }
}

void NormLink::hear_events(int milliseconds) {
  pollfd entry = {.fd = NormGetDescriptor(instance_->handle()), .events = POLLIN, .revents = 0};
  if (poll(&entry, 1, milliseconds) <= 0) return;
  NormEvent event;
  while (NormGetNextEvent(instance_->handle(), &event, false)) {
    const auto found = std::find_if(groups_.begin(), groups_.end(),
                                    [&](const auto& one) { return one.second->session == event.session; });
    if (found == groups_.end()) continue;
    if (event.type == NORM_RX_OBJECT_COMPLETED) hear_object(*found->second, event.object);
  }
}

void NormLink::hear_object(Group& group, const void* object) {
  Header header;
  if (NormObjectGetInfoLength(object) != sizeof(header)) return;
  NormObjectGetInfo(object, reinterpret_cast<char*>(&header), sizeof(header));
  const int64_t bytes = NormObjectGetSize(object);
  const char* data = NormDataAccessData(object);
  const int64_t rank = int64_t{NormNodeGetId(NormObjectGetSender(object))} - int64_t{group.first_node};
  if (header.job != options_.job || rank < 0 || rank >= options_.size || data == nullptr || header.bytes > bytes)
    return;
  if (XXH3_64bits(data, static_cast<size_t>(bytes)) != header.hash) return;
  if (header.number == 0) {
    group.farewell = "rank " + std::to_string(rank) + " gave up: " + std::string(data, static_cast<size_t>(bytes));
    return;
  }
  if (header.number < group.number) return;
  const auto* first = reinterpret_cast<const std::byte*>(data);
  group.received.insert_or_assign({static_cast<int>(rank), header.number},
                                  Group::Received{.header = header, .bytes = {first, first + bytes}});
}

void NormLink::check_alive() const {
  const std::lock_guard lock(mutex_);
  if (!why_.empty()) throw LinkFailure("aborted: " + why_);
}

void NormLink::abort(const std::string& why) noexcept {
  const std::lock_guard lock(mutex_);
  if (!why_.empty()) return;
  why_ = why.empty() ? "no reason" : why;
  const Header header = {
      .job = options_.job, .number = 0, .bytes = 0, .hash = XXH3_64bits(why_.data(), why_.size()), .label = {}};
  for (auto& [ranks, group] : groups_) {
    const NormObjectHandle object = NormDataEnqueue(group->session, why_.data(), static_cast<uint32_t>(why_.size()),
                                                    reinterpret_cast<const char*>(&header), sizeof(header));
    if (object != NORM_OBJECT_INVALID) NormSetWatermark(group->session, object, true);
  }
}

}  // namespace litespark::dist
