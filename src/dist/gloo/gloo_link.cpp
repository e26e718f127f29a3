// SPDX-License-Identifier: Apache-2.0
#include "dist/gloo/gloo_link.h"

#include <gloo/rendezvous/store.h>
#include <gloo/transport/tcp/device.h>

#include <algorithm>
#include <cstring>
#include <list>
#include <utility>

#include "dist/gloo/gloo_communicator.h"
#include "dist/payload_hash.h"
#include "dist/sha256.h"
#include "dist/short_slices.h"

namespace litespark {
namespace dist {
namespace {

// Kinds of messages between two ranks; each keeps its order.
constexpr uint64_t kLabelSlot = 1;
constexpr uint64_t kDataSlot = 2;
constexpr uint64_t kFarewellSlot = 3;
constexpr uint64_t kNonceSlot = 4;
constexpr uint64_t kProofSlot = 5;
constexpr uint64_t kLeaveSlot = 6;

constexpr size_t kFarewellBytes = 512;
constexpr char kFarewellMark = '\1';  ///< its last byte: it has come whole
constexpr auto kFarewellPatience = std::chrono::milliseconds(200);
constexpr auto kLeavePatience = std::chrono::seconds(2);
constexpr char kLeaveWord = 1;
/// How often somebody looks whether who is waited for is still there.
constexpr auto kLookPeriod = std::chrono::milliseconds(50);
constexpr auto kHearPeriod = std::chrono::milliseconds(2);
/// Past every deadline of ours.
constexpr auto kLongest = std::chrono::hours(1000);

std::chrono::milliseconds left_until(Deadline deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
  return std::max(left, std::chrono::milliseconds(1));  // 0 and less would mean no limit
}

/// Addresses of peers come from the rendezvous, whose messages are sealed: nobody can plant one.
class RendezvousStore final : public gloo::rendezvous::Store {
 public:
  RendezvousStore(Rendezvous& rendezvous, std::string prefix, Deadline deadline)
      : rendezvous_(rendezvous), prefix_(std::move(prefix)), deadline_(deadline) {}
  void set(const std::string& key, const std::vector<char>& data) override {
    rendezvous_.set(prefix_ + key, std::string(data.begin(), data.end()));
  }
  std::vector<char> get(const std::string& key) override {
    const std::string value = rendezvous_.get(prefix_ + key, deadline_);
    return {value.begin(), value.end()};
  }
  void wait(const std::vector<std::string>& keys) override {
    for (const std::string& key : keys) get(key);
  }
  void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds&) override { wait(keys); }

 private:
  Rendezvous& rendezvous_;
  std::string prefix_;
  Deadline deadline_;
};

std::string proof(const std::string& secret, int from, int to, const std::string& nonce_from,
                  const std::string& nonce_to) {
  const std::string message =
      Writer().text("gloo pair").number(from).number(to).text(nonce_from).text(nonce_to).bytes();
  return std::string(view_of(hmac_sha256(secret, message)));
}

}  // namespace

class GlooLink::Transfer {
 public:
  Transfer(GlooLink& link, Deadline deadline) : link_(link), deadline_(deadline) {
    {
      const std::lock_guard lock(link_.mutex_);
      if (link_.is_aborted_) throw LinkFailure("aborted: " + link_.why_);
      link_.transfer_ = this;
    }
    link_.changed_.notify_all();
  }
  ~Transfer() {
    {
      std::unique_lock lock(link_.mutex_);
      // See transfer.
      link_.changed_.wait(lock, [&] { return !link_.is_saying_farewell_; });
      link_.transfer_ = nullptr;
    }
    link_.changed_.notify_all();
  }
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;

  Entry& add(const Message& message) {
    const std::lock_guard lock(link_.mutex_);
    // Who ends waits ends those of the buffers that there are.
    if (link_.is_aborted_ || link_.is_late_) throw LinkFailure("ended");
    Entry& entry = entries_.emplace_back();
    entry.message = message;
    entry.label_buffer = link_.buffer(&entry.label, sizeof(CallLabel));
    if (message.bytes > 0) entry.data_buffer = link_.buffer(message.data, message.bytes);
    return entry;
  }

  Deadline deadline() const { return deadline_; }

  /// `waited_for`, and whoever else has not even announced a message.
  std::vector<int> late_ranks(int waited_for) {
    std::vector<int> ranks = {waited_for};
    for (Entry& entry : entries_) {
      if (std::atomic_ref(entry.label.number).load() == 0) ranks.push_back(entry.message.rank);
    }
    return ranks;
  }

  /// Whom it concerns. The link's lock is held.
  std::vector<int> ranks() const {
    std::vector<int> ranks;
    for (const Entry& entry : entries_) ranks.push_back(entry.message.rank);
    return ranks;
  }

  /// The link's lock is held.
  void end_waits() {
    for (Entry& entry : entries_) {
      for (Buffer* buffer : {&entry.label_buffer, &entry.data_buffer}) {
        if (*buffer == nullptr) continue;
        (*buffer)->abortWaitSend();
        (*buffer)->abortWaitRecv();
      }
    }
  }

 private:
  GlooLink& link_;
  Deadline deadline_;
  std::list<Entry> entries_;
};

GlooLink::GlooLink(Rendezvous& rendezvous, const std::string& mesh, const std::string& secret, Deadline deadline,
                   const GlooLink* beside)
    : rank_(rendezvous.place().rank), size_(rendezvous.place().size) {
  if (beside != nullptr) device_ = beside->device_;
  if (size_ == 1) return;
  try {
    connect(rendezvous, mesh, deadline);
    prove_each_other(secret, deadline);
    listen_for_farewells();
    listen_for_leaves();
    watcher_ = std::thread([this] { watch(); });
  } catch (const LinkFailure&) {
    close();
    throw;
  } catch (const std::exception& error) {
    close();
    throw LinkFailure(std::string("the ranks cannot be connected: ") + error.what());
  }
}

GlooLink::~GlooLink() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  changed_.notify_all();
  if (watcher_.joinable()) watcher_.join();
  if (!is_aborted_) leave();
  failed_.reset();
  farewell_words_.clear();
  leave_words_.clear();
  leave_buffers_.clear();
  farewell_buffers_.clear();
  close();
}

void GlooLink::connect(Rendezvous& rendezvous, const std::string& mesh, Deadline deadline) {
  if (device_ == nullptr) {
    gloo::transport::tcp::attr where(rendezvous.own_address().c_str());
    const ShortSlices of_its_thread;
    device_ = gloo::transport::tcp::CreateDevice(where);
  }
  context_ = std::make_shared<gloo::rendezvous::Context>(rank_, size_);
  context_->setTimeout(left_until(deadline));
  RendezvousStore store(rendezvous, "gloo/" + mesh + "/", deadline);
  context_->connectFullMesh(store, device_);
}

void GlooLink::prove_each_other(const std::string& secret, Deadline deadline) {
  std::vector<std::string> texts(static_cast<size_t>(size_) * 4);
  const auto place = [&](int kind, int rank) -> std::string& {
    return texts[static_cast<size_t>(kind) * static_cast<size_t>(size_) + static_cast<size_t>(rank)];
  };
  enum { kOwnNonce, kTheirNonce, kOwnProof, kTheirProof };
  const auto swap = [&](uint64_t slot, int own, int theirs) {
    std::vector<Buffer> out(static_cast<size_t>(size_));
    std::vector<Buffer> in(static_cast<size_t>(size_));
    for (int rank = 0; rank < size_; ++rank) {
      if (rank == rank_) continue;
      const auto at = static_cast<size_t>(rank);
      std::string& received = place(theirs, rank);
      received.resize(place(own, rank).size());
      out[at] = buffer(place(own, rank).data(), static_cast<int64_t>(place(own, rank).size()));
      in[at] = buffer(received.data(), static_cast<int64_t>(received.size()));
      out[at]->send(rank, slot);
      in[at]->recv(rank, slot);
    }
    for (int rank = 0; rank < size_; ++rank) {
      if (rank == rank_) continue;
      in[static_cast<size_t>(rank)]->waitRecv(left_until(deadline));
      out[static_cast<size_t>(rank)]->waitSend(left_until(deadline));
    }
  };
  for (int rank = 0; rank < size_; ++rank) place(kOwnNonce, rank) = random_bytes(kNonceBytes);
  swap(kNonceSlot, kOwnNonce, kTheirNonce);
  for (int rank = 0; rank < size_; ++rank)
    place(kOwnProof, rank) = proof(secret, rank_, rank, place(kOwnNonce, rank), place(kTheirNonce, rank));
  swap(kProofSlot, kOwnProof, kTheirProof);
  for (int rank = 0; rank < size_; ++rank) {
    if (rank == rank_) continue;
    const std::string expected = proof(secret, rank, rank_, place(kTheirNonce, rank), place(kOwnNonce, rank));
    if (!is_equal_in_constant_time(place(kTheirProof, rank), expected))
      throw LinkFailure("who answers as rank " + std::to_string(rank) + " does not know the job's secret");
  }
}

void GlooLink::listen_for_farewells() {
  farewells_.assign(static_cast<size_t>(size_), std::string(kFarewellBytes, '\0'));
  farewell_buffers_.resize(static_cast<size_t>(size_));
  for (int rank = 0; rank < size_; ++rank) {
    if (rank == rank_) continue;
    Buffer& entry = farewell_buffers_[static_cast<size_t>(rank)];
    entry = buffer(farewells_[static_cast<size_t>(rank)].data(), kFarewellBytes);
    entry->recv(rank, kFarewellSlot);
  }
}

void GlooLink::listen_for_leaves() {
  leaves_.resize(static_cast<size_t>(size_));
  leave_buffers_.resize(static_cast<size_t>(size_));
  for (int rank = 0; rank < size_; ++rank) {
    if (rank == rank_) continue;
    Buffer& entry = leave_buffers_[static_cast<size_t>(rank)];
    entry = buffer(&leaves_[static_cast<size_t>(rank)], 1);
    entry->recv(rank, kLeaveSlot);
  }
}

void GlooLink::announce_leave() noexcept {
  if (leave_deadline_ || leave_buffers_.empty() || is_aborted_) return;
  leave_deadline_ = std::chrono::steady_clock::now() + kLeavePatience;
  try {
    for (int rank = 0; rank < size_; ++rank) {
      if (rank == rank_) continue;
      leave_words_.push_back(buffer(&kLeaveWord, 1));
      leave_words_.back()->send(rank, kLeaveSlot);
    }
  } catch (const std::exception&) {
    // The others are asked all the same.
  }
}

/// Gloo closes a connection by a reset, which takes back what the kernel has not sent yet. Who says that he leaves has
/// all that was sent to him; who is gone already had it too, or never wanted it.
void GlooLink::leave() {
  announce_leave();
  if (!leave_deadline_) return;
  for (int rank = 0; rank < size_; ++rank) {
    if (rank == rank_) continue;
    try {
      leave_buffers_[static_cast<size_t>(rank)]->waitRecv(left_until(*leave_deadline_));
    } catch (const std::exception&) {
      continue;
    }
  }
}

GlooLink::Buffer GlooLink::buffer(const void* data, int64_t bytes) {
  return context_->createUnboundBuffer(const_cast<void*>(data), static_cast<size_t>(bytes));
}

void GlooLink::transfer(std::span<const Message> sent, std::span<const Message> received, Deadline deadline) {
  auto under_way = std::make_unique<Transfer>(*this, deadline);
  try {
    move(*under_way, sent, received);
  } catch (const LinkFailure&) {
    // A farewell stands behind what is half sent, and would stand there for good without the buffers.
    const std::lock_guard lock(mutex_);
    if (!is_aborted_) failed_ = std::move(under_way);
    throw;
  }
}

void GlooLink::move(Transfer& under_way, std::span<const Message> sent, std::span<const Message> received) {
  std::vector<Entry*> out;
  std::vector<Entry*> in;
  int rank = rank_;
  SealedLabels labels;
  try {
    for (const Message& message : sent) {
      rank = message.rank;
      Entry& entry = *out.emplace_back(&under_way.add(message));
      entry.label = labels.seal(message);  // with a number, which is never 0
      entry.label_buffer->send(rank, kLabelSlot);
    }
    for (const Message& message : received) {
      rank = message.rank;
      Entry& entry = *in.emplace_back(&under_way.add(message));
      entry.label_buffer->recv(rank, kLabelSlot);
    }
  } catch (const std::exception& error) {
    throw_failure(rank, error.what());
  }
  // Gloo sends data when it has heard that they are awaited, and a connection carries things one after another: if what
  // this rank sends stood in front of its word that it awaits the other's data, these would come when its own are
  // through.
  for (const Message& message : sent) {
    const bool is_one_way = std::none_of(received.begin(), received.end(),
                                         [&](const Message& other) { return other.rank == message.rank; });
    if (is_one_way) send_data(out, message.rank);
  }
  for (Entry* entry : in) {
    wait(entry->message.rank, entry->label_buffer, Half::kReceived);
    if (!entry->label.is_same_call(entry->message.label))
      throw LinkFailure(other_call_text(entry->message.rank, entry->label));
    try {
      if (entry->data_buffer) entry->data_buffer->recv(entry->message.rank, kDataSlot);
    } catch (const std::exception& error) {
      throw_failure(entry->message.rank, error.what());
    }
    send_data(out, entry->message.rank);
  }
  for (Entry* entry : in) {
    if (entry->data_buffer) wait(entry->message.rank, entry->data_buffer, Half::kReceived);
    require_undamaged(entry->message, entry->label);
  }
  for (Entry* entry : out) {
    wait(entry->message.rank, entry->label_buffer, Half::kSent);
    if (entry->data_buffer) wait(entry->message.rank, entry->data_buffer, Half::kSent);
  }
}

/// What goes to `rank` and has not been sent yet.
void GlooLink::send_data(std::span<Entry* const> entries, int rank) {
  for (Entry* entry : entries) {
    if (entry->message.rank != rank || entry->data_buffer == nullptr || std::exchange(entry->has_sent_data, true))
      continue;
    try {
      entry->data_buffer->send(rank, kDataSlot);
    } catch (const std::exception& error) {
      throw_failure(rank, error.what());
    }
  }
}

void GlooLink::wait(int rank, Buffer& buffer, Half half) {
  {
    const std::lock_guard lock(mutex_);
    awaited_ = {.buffer = buffer.get(), .rank = rank, .number = ++num_waits_};
  }
  bool is_done = false;
  std::string error = "aborted";
  try {
    is_done = half == Half::kSent ? buffer->waitSend(kLongest) : buffer->waitRecv(kLongest);
  } catch (const std::exception& caught) {
    error = caught.what();
  }
  {
    const std::lock_guard lock(mutex_);
    awaited_ = {};
  }
  if (!is_done) throw_failure(rank, error);
}

void GlooLink::watch() {
  std::unique_lock lock(mutex_);
  Deadline next_look;
  while (!is_ending_) {
    if (transfer_ == nullptr) {
      changed_.wait(lock, [this] { return is_ending_ || transfer_ != nullptr; });
      next_look = std::chrono::steady_clock::now() + kLookPeriod;
      continue;
    }
    changed_.wait_until(lock, std::min(transfer_->deadline(), next_look),
                        [&] { return is_ending_ || transfer_ == nullptr; });
    if (is_ending_ || transfer_ == nullptr) continue;
    const auto now = std::chrono::steady_clock::now();
    if (transfer_->deadline() <= now) {
      const Transfer* late = transfer_;
      is_late_ = true;
      transfer_->end_waits();
      changed_.wait(lock, [&] { return is_ending_ || transfer_ != late; });
    } else if (next_look <= now) {
      look();
      next_look = now + kLookPeriod;
    }
  }
}

/// Of a connection that broke Gloo tells whoever waits for a message that had not begun, and nobody who waits for the
/// rest of one. The lock is held.
void GlooLink::look() {
  for (int rank = 0; rank < size_ && !first_lost_; ++rank) {
    if (rank == rank_ || has_said_farewell(rank) || has_left(rank)) continue;
    if (const auto error = break_of(rank)) first_lost_ = {rank, *error};
  }
  if (awaited_.buffer == nullptr) return;
  if (!has_said_farewell(awaited_.rank) && !break_of(awaited_.rank)) return;
  // What came before is taken first, which takes no time: hence the second look.
  if (std::exchange(suspected_wait_, awaited_.number) != awaited_.number) return;
  awaited_.buffer->abortWaitSend();
  awaited_.buffer->abortWaitRecv();
}

void GlooLink::throw_failure(int rank, const std::string& error) {
  std::vector<int> late_ranks;
  // Whoever was lost first: another one may have closed because of that, in the midst of a message.
  Lost lost = {.rank = rank, .error = error};
  {
    const std::lock_guard lock(mutex_);
    if (is_aborted_) throw LinkFailure("aborted: " + why_);
    if (is_late_) late_ranks = transfer_->late_ranks(rank);
    if (first_lost_) lost = *first_lost_;
  }
  if (!late_ranks.empty()) throw LinkFailure::late(late_ranks);
  // Whoever gives up says why before it closes, and this is not always the rank that is waited for.
  if (const auto why = failure_of(rank)) throw LinkFailure(*why, LinkFailure::Cause::kTold);
  for (int other = 0; other < size_; ++other) {
    if (const auto why = failure_of(other)) throw LinkFailure(*why, LinkFailure::Cause::kTold);
  }
  throw LinkFailure("rank " + std::to_string(lost.rank) + " is lost: " + lost.error);
}

bool GlooLink::has_left(int rank) {
  return std::atomic_ref(leaves_[static_cast<size_t>(rank)]).load() != '\0';
}

bool GlooLink::has_said_farewell(int rank) {
  return std::atomic_ref(farewells_[static_cast<size_t>(rank)].back()).load() != '\0';
}

std::optional<std::string> GlooLink::failure_of(int rank) {
  if (farewell_buffers_.empty() || rank == rank_ || !has_said_farewell(rank)) return std::nullopt;
  const std::string& text = farewells_[static_cast<size_t>(rank)];
  Buffer& buffer = farewell_buffers_[static_cast<size_t>(rank)];
  const std::lock_guard lock(farewell_mutex_);
  // Only one that is there is waited for: see watch.
  try {
    if (buffer != nullptr && !buffer->waitRecv(kFarewellPatience)) return std::nullopt;
  } catch (const std::exception&) {
    return std::nullopt;
  }
  buffer.reset();  // it has come whole
  return "rank " + std::to_string(rank) + " gave up: " + text.substr(0, text.find('\0'));
}

std::vector<int> GlooLink::missed_ranks() {
  const std::lock_guard lock(mutex_);
  if (transfer_ == nullptr || awaited_.buffer == nullptr) return {};
  std::vector<int> ranks = transfer_->late_ranks(awaited_.rank);
  std::erase_if(ranks, [this](int rank) { return has_said_farewell(rank); });
  return ranks;
}

std::optional<std::string> GlooLink::break_of(int rank) {
  const std::lock_guard lock(farewell_mutex_);
  const Buffer& farewell = farewell_buffers_[static_cast<size_t>(rank)];
  if (farewell == nullptr) return "it gave up";
  try {
    farewell->abortWaitRecv();  // so that it only throws or returns, at once
    farewell->waitRecv(kLongest);
    return std::nullopt;
  } catch (const std::exception& error) {
    return error.what();
  }
}

void GlooLink::announce_failure(const std::string& why) noexcept {
  const std::lock_guard telling(telling_mutex_);
  {
    const std::lock_guard lock(mutex_);
    if (!why_.empty()) return;
    why_ = why.empty() ? "no reason" : why;
  }
  if (context_ == nullptr || farewell_buffers_.empty()) return;
  farewell_ = why_.substr(0, kFarewellBytes - 2);
  farewell_.resize(kFarewellBytes, '\0');
  farewell_.back() = kFarewellMark;
  for (int rank = 0; rank < size_; ++rank) {
    if (rank == rank_) continue;
    try {
      farewell_words_.push_back(buffer(farewell_.data(), kFarewellBytes));
      farewell_words_.back()->send(rank, kFarewellSlot);
    } catch (const std::exception&) {
      // That one is gone.
      farewell_words_.pop_back();
    }
  }
}

void GlooLink::abort(const std::string& why) noexcept {
  announce_failure(why);
  {
    std::unique_lock lock(mutex_);
    if (is_aborted_.exchange(true)) return changed_.wait(lock, [this] { return has_ended_; });
    is_saying_farewell_ = true;
  }
  await_hearing();
  std::unique_ptr<Transfer> failed;
  {
    const std::lock_guard lock(mutex_);
    is_saying_farewell_ = false;
    if (transfer_ != nullptr) transfer_->end_waits();
    failed = std::move(failed_);
  }
  changed_.notify_all();
  close();
  failed.reset();
  {
    const std::lock_guard lock(mutex_);
    has_ended_ = true;
  }
  changed_.notify_all();
}

/// Closing takes back what the kernel has not sent yet. Whoever waits for this rank hears the farewell, says his own
/// and closes.
void GlooLink::await_hearing() {
  const Deadline deadline = std::chrono::steady_clock::now() + kFarewellPatience;
  std::vector<int> waiting;
  {
    const std::lock_guard lock(mutex_);
    if (transfer_ != nullptr) waiting = transfer_->ranks();
  }
  while (std::chrono::steady_clock::now() < deadline) {
    std::erase_if(waiting, [&](int rank) { return has_said_farewell(rank) || break_of(rank); });
    if (waiting.empty()) break;
    std::this_thread::sleep_for(kHearPeriod);
  }
  for (const Buffer& word : farewell_words_) {
    try {
      word->waitSend(left_until(deadline));
    } catch (const std::exception&) {
      continue;
    }
  }
}

void GlooLink::close() noexcept {
  if (std::exchange(is_closed_, true) || context_ == nullptr) return;
  try {
    context_->closeConnections();
  } catch (const std::exception&) {
    // There were none yet.
  }
}

}  // namespace dist

std::unique_ptr<Communicator> make_gloo_communicator(dist::Rendezvous& rendezvous, const dist::Secret& secret,
                                                     const GlooOptions& options) {
  const auto deadline = dist::in_seconds(options.join_seconds);
  std::vector<std::unique_ptr<dist::Link>> links;
  try {
    auto first = std::make_unique<dist::GlooLink>(rendezvous, options.mesh, secret.bytes(), deadline);
    const dist::GlooLink& plain = *first;
    links.push_back(options.wrap ? options.wrap(std::move(first)) : std::move(first));
    const int num_lanes = rendezvous.place().size > 1 ? options.communicator.num_lanes : 1;
    for (int lane = 1; lane < num_lanes; ++lane) {
      links.push_back(std::make_unique<dist::GlooLink>(rendezvous, options.mesh + "/lane" + std::to_string(lane),
                                                       secret.bytes(), deadline, &plain));
    }
  } catch (const dist::LinkFailure& failure) {
    throw CommError(
        "gloo rank " + std::to_string(rendezvous.place().rank) + " of " + std::to_string(rendezvous.place().size),
        failure.what());
  }
  return std::make_unique<dist::HostCommunicator>(std::move(links), options.communicator);
}

}  // namespace litespark
