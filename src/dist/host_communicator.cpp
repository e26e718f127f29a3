// SPDX-License-Identifier: Apache-2.0
#include "dist/host_communicator.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <exception>
#include <numeric>
#include <utility>

#include "core/error.h"
#include "dist/ordered_reduce.h"
#include "dist/short_slices.h"

namespace litespark::dist {
namespace {

/// What a call's next step has more than the one before it. A lost rank is missed by some in one step, and in the next
/// one by those that have all they need of it; these wait for the former too, who shall speak first, since they miss
/// nobody else.
constexpr auto kPatienceByStep = std::chrono::milliseconds(200);
constexpr int kMostPatientStep = 10;

/// So long is heard whether who is missed gives up itself: calls under way beside each other began at about the same
/// time, and a rank that is ahead can miss one that waits for the lost one in an earlier call.
constexpr auto kHearing = std::chrono::milliseconds(500);
constexpr auto kHearPeriod = std::chrono::milliseconds(5);

}  // namespace

HostEngine::HostEngine(Link& link, std::vector<int> members) : link_(link), members_(std::move(members)) {
  rank_ = static_cast<int>(std::find(members_.begin(), members_.end(), link.rank()) - members_.begin());
}

std::span<const Message> HostEngine::renamed(std::span<const Message> messages, std::vector<Message>& room) const {
  if (size() == link_.size()) return messages;
  room.assign(messages.begin(), messages.end());
  for (Message& message : room) message.rank = members_[static_cast<size_t>(message.rank)];
  return room;
}

void HostEngine::transfer(std::span<const Message> sent, std::span<const Message> received) {
  const Deadline deadline = deadline_ + kPatienceByStep * std::min(num_transfers_++, kMostPatientStep);
  link_.transfer(renamed(sent, sent_), renamed(received, received_), deadline);
}

std::byte* HostEngine::inbox(int64_t bytes) {
  if (static_cast<int64_t>(inbox_.size()) < bytes) inbox_.resize(static_cast<size_t>(bytes));
  return inbox_.data();
}

void HostEngine::reduce(void* out, const void* own, int64_t num_elements, DType dtype, Reduction reduction) {
  const std::byte* other = inbox_.data();
  inputs_.clear();
  for (int rank = 0; rank < size(); ++rank) {
    inputs_.push_back(rank == rank_ ? own : other);
    if (rank != rank_) other += num_elements * dtype_bytes(dtype);
  }
  reduce_in_order(out, inputs_, num_elements, dtype, reduction);
}

void HostEngine::copy(void* destination, const void* source, int64_t bytes) {
  std::memcpy(destination, source, static_cast<size_t>(bytes));
}

/// Some of the links' ranks, and their calls.
struct HostCommunicator::Group {
  /// What makes its calls over one link.
  struct Lane {
    Lane(Link& link, std::vector<int> members, const OrderedCollectives::Options& options)
        : engine(link, std::move(members)), collectives(engine, options) {}
    HostEngine engine;
    OrderedCollectives collectives;
  };

  std::vector<int> members;
  std::vector<std::unique_ptr<Lane>> lanes;
  std::vector<int64_t> lane_bytes;  ///< of calls that all members make, so far: the same on all of them
};

/// The queue of a rank, the threads that work on it, and what went wrong. Groups stay until all communicators are gone:
/// a call of one that gave up may be under way.
class HostCommunicator::Calls {
 public:
  Calls(std::vector<std::unique_ptr<Link>> links, const Options& options) : options_(options) {
    options_.collectives.inbox_bytes /= static_cast<int64_t>(links.size());
    for (std::unique_ptr<Link>& link : links) lanes_.push_back(std::make_unique<Lane>(std::move(link)));
    for (size_t lane = 0; lane < lanes_.size(); ++lane)
      lanes_[lane]->thread = std::thread([this, lane] { work(lane); });
  }

  ~Calls() {
    {
      const std::lock_guard lock(mutex_);
      is_closing_ = true;
    }
    notify_everybody();
    for (const std::unique_ptr<Lane>& lane : lanes_) lane->thread.join();
    for (const std::unique_ptr<Lane>& lane : lanes_) lane->link->announce_leave();
  }

  Calls(const Calls&) = delete;
  Calls& operator=(const Calls&) = delete;

  const Link& link() const { return *lanes_.front()->link; }
  void set_step(int64_t step) { step_ = step; }

  Group& add_group(std::vector<int> members) {
    const std::lock_guard lock(mutex_);
    Group& group = *groups_.emplace_back(std::make_unique<Group>());
    for (const std::unique_ptr<Lane>& lane : lanes_)
      group.lanes.push_back(std::make_unique<Group::Lane>(*lane->link, members, options_.collectives));
    group.members = std::move(members);
    group.lane_bytes.assign(lanes_.size(), 0);
    return group;
  }

  int64_t issue(CommCall call, Group& group, const CallPlace& place) {
    call.step = step_;
    // One rank has nobody to wait for: sooner done than told to another thread.
    const bool is_alone = link().size() == 1;
    const size_t lane = lane_of(call, group);
    Queued* queued = nullptr;
    {
      std::unique_lock lock(mutex_);
      if (failure_) throw_failure(place, lock);
      call.number = ++num_calls_;
      queued = &queue_.emplace_back(Queued{.call = call,
                                           .group = &group,
                                           .lane = lane,
                                           .must_be_alone = link().must_carry(label_of(call)),
                                           .has_begun = is_alone});
      if (options_.record) options_.record->add(call, place, lane);
    }
    if (is_alone) {
      make(*queued);
    } else {
      lanes_[lane]->has_work.notify_one();  // which may have found it already
    }
    return num_calls_;
  }

  void wait(CommTicket ticket, const CallPlace& place) {
    std::unique_lock lock(mutex_);
    if (ticket.id < 1 || ticket.id > num_calls_)
      throw InternalError(place.text(), "wait for a call that was never made", ticket.id, num_calls_);
    if (options_.record) options_.record->begin_wait(ticket.id);
    changed_.wait(lock, [&] { return num_done_ >= ticket.id || failure_; });
    if (failure_) throw_failure(place, lock);
    if (options_.record) options_.record->end_wait(ticket.id);
  }

  void abort(const std::string& why) {
    {
      const std::lock_guard lock(mutex_);
      // A lane that gives up knows the call and whom it misses, and still hears of others.
      fail(found_ ? *found_ : "aborted: " + why + under_way_text());
    }
    notify_everybody();
    abort_links(why);
  }

  /// Nobody will wait for the calls up to `last`.
  void give_up(int64_t last) {
    {
      const std::lock_guard lock(mutex_);
      if (num_done_ >= last || failure_) return;
      fail("given up with calls under way");
    }
    notify_everybody();
    abort_links("left with calls under way");
    std::unique_lock lock(mutex_);
    wait_for_lanes(lock);
  }

 private:
  struct Lane {
    explicit Lane(std::unique_ptr<Link> own_link) : link(std::move(own_link)) {}
    std::unique_ptr<Link> link;
    std::condition_variable has_work;
    bool is_held_up = false;  ///< its next call waits for another lane's
    std::thread thread;
  };

  struct Queued {
    CommCall call;
    Group* group = nullptr;
    size_t lane = 0;
    bool must_be_alone = false;  ///< its way between hosts takes the whole link
    bool has_begun = false;
    bool is_done = false;
    bool has_failed = false;
  };

  void notify_everybody() {
    changed_.notify_all();
    for (const std::unique_ptr<Lane>& lane : lanes_) lane->has_work.notify_all();
  }

  void announce_failure(const std::string& why, size_t first) {
    for (size_t i = 0; i < lanes_.size(); ++i) lanes_[(first + i) % lanes_.size()]->link->announce_failure(why);
  }

  /// The lane that failed first: the others hear the cause there before their own deadlines.
  void abort_links(const std::string& why, size_t first = 0) {
    announce_failure(why, first);
    for (size_t i = 0; i < lanes_.size(); ++i) lanes_[(first + i) % lanes_.size()]->link->abort(why);
  }

  /// The same on all ranks that make the call.
  size_t lane_of(const CommCall& call, Group& group) const {
    if (call.kind == CallKind::kExchange) return 0;
    if (link().must_carry(label_of(call))) return 0;
    const auto emptiest = std::min_element(group.lane_bytes.begin(), group.lane_bytes.end());
    *emptiest += call.data.bytes();
    return static_cast<size_t>(emptiest - group.lane_bytes.begin());
  }

  /// "; under way: all_reduce (sum) of f32 [10], call 5, step 7": the first such call; empty for none. The lock is
  /// held.
  std::string under_way_text() const {
    const auto call = std::find_if(queue_.begin(), queue_.end(),
                                   [](const Queued& queued) { return queued.has_begun && !queued.is_done; });
    return call == queue_.end() ? "" : "; under way: " + label_of(call->call).text();
  }

  /// Keeps the first failure alone. The lock is held.
  void fail(const std::string& what) {
    if (!failure_) failure_ = what;
  }

  /// After a failure: until no lane reads or writes the caller's memory any more. Aborted links end soon.
  void wait_for_lanes(std::unique_lock<std::mutex>& lock) {
    changed_.wait(lock, [&] {
      return std::none_of(queue_.begin(), queue_.end(), [](const Queued& queued) {
        return queued.has_begun && !queued.is_done && !queued.has_failed;
      });
    });
  }

  [[noreturn]] void throw_failure(const CallPlace& place, std::unique_lock<std::mutex>& lock) {
    wait_for_lanes(lock);
    throw CommError(place.text(), *failure_);
  }

  /// The lane's next call, unless an earlier one of another lane must end first. The lock is held.
  Queued* next_of(size_t lane) {
    const auto next = std::find_if(queue_.begin(), queue_.end(),
                                   [&](const Queued& queued) { return queued.lane == lane && !queued.has_begun; });
    bool& is_held_up = lanes_[lane]->is_held_up;
    is_held_up = false;
    if (next == queue_.end()) return nullptr;
    is_held_up = std::any_of(queue_.begin(), next, [&](const Queued& earlier) {
      if (earlier.is_done) return false;
      return earlier.must_be_alone || next->must_be_alone || is_ordered_with(earlier.call, next->call);
    });
    return is_held_up ? nullptr : &*next;
  }

  void work(size_t lane) {
    const ShortSlices short_slices;
    while (true) {
      Queued* next = nullptr;
      {
        std::unique_lock lock(mutex_);
        lanes_[lane]->has_work.wait(lock, [&] { return is_closing_ || failure_ || (next = next_of(lane)) != nullptr; });
        if (is_closing_ || failure_) return;
        next->has_begun = true;
      }
      make(*next);
    }
  }

  void make(Queued& next) {
    const auto timeout =
        std::chrono::duration_cast<Deadline::duration>(std::chrono::duration<double>(options_.timeout_seconds));
    try {
      if (options_.record) options_.record->begin(next.call.number);
      Group::Lane& lane = *next.group->lanes[next.lane];
      lane.engine.set_deadline(std::chrono::steady_clock::now() + timeout);
      lane.collectives.run(next.call);
      if (options_.record) options_.record->end(next.call.number);
      const std::lock_guard lock(mutex_);
      next.is_done = true;
      for (; !queue_.empty() && queue_.front().is_done; ++num_done_) queue_.pop_front();
      changed_.notify_all();
      for (const std::unique_ptr<Lane>& held_up : lanes_) {
        if (held_up->is_held_up) held_up->has_work.notify_one();
      }
    } catch (const LinkFailure& failure) {
      return give_up(next, failure.what(), failure.cause(), failure.missed());
    } catch (const std::exception& error) {
      return give_up(next, error.what(), LinkFailure::Cause::kFound, {});
    }
  }

  void give_up(Queued& failed, const std::string& error, LinkFailure::Cause cause, const std::vector<int>& missed) {
    const std::string limit = " (a call has " + std::to_string(std::llround(options_.timeout_seconds)) + " s)";
    std::string what = label_of(failed.call).text() + ": ";
    if (cause == LinkFailure::Cause::kTold) {
      // What this rank found itself comes first: of a long text the others hear the beginning.
      const std::string own = missed_elsewhere(failed.lane);
      what += own.empty() ? error + limit : own + limit + "; " + error;
    } else {
      what += error + limit;
    }
    {
      const std::lock_guard lock(mutex_);
      if (!found_) found_ = what;
    }
    announce_failure(what, failed.lane);
    what += heard_of(missed);
    {
      const std::lock_guard lock(mutex_);
      fail(what);
      what = *failure_;
    }
    notify_everybody();
    abort_links(what, failed.lane);
    {
      const std::lock_guard lock(mutex_);
      failed.has_failed = true;
    }
    changed_.notify_all();
  }

  /// Who tells that it gives up may have missed this rank, which waits for the lost one in a call of another lane.
  std::string missed_elsewhere(size_t lane) {
    std::vector<int> ranks;
    for (size_t other = 0; other < lanes_.size(); ++other) {
      if (other == lane) continue;
      const std::vector<int> missed = lanes_[other]->link->missed_ranks();
      ranks.insert(ranks.end(), missed.begin(), missed.end());
    }
    return ranks.empty() ? "" : "other calls have " + no_word_text(ranks);
  }

  /// Why the missed ranks give up themselves, of those that tell it soon.
  std::string heard_of(std::vector<int> missed) {
    std::string text;
    const auto deadline = std::chrono::steady_clock::now() + kHearing;
    while (!missed.empty() && std::chrono::steady_clock::now() < deadline) {
      std::erase_if(missed, [&](int rank) {
        for (const std::unique_ptr<Lane>& lane : lanes_) {
          const std::optional<std::string> why = lane->link->failure_of(rank);
          if (!why) continue;
          text += "; " + *why;
          return true;
        }
        return false;
      });
      if (!missed.empty()) std::this_thread::sleep_for(kHearPeriod);
    }
    return text;
  }

  Options options_;
  int64_t step_ = 0;       ///< of the calling thread
  int64_t num_calls_ = 0;  ///< likewise

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::unique_ptr<Group>> groups_;
  std::deque<Queued> queue_;          ///< in the order of issue, from the first that is not done
  int64_t num_done_ = 0;              ///< all calls up to this one
  std::optional<std::string> found_;  ///< by the first lane that failed, before it has heard of others
  std::optional<std::string> failure_;
  bool is_closing_ = false;
  std::vector<std::unique_ptr<Lane>> lanes_;
};

namespace {

std::vector<int> all_ranks(const Link& link) {
  std::vector<int> ranks(static_cast<size_t>(link.size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

std::vector<std::unique_ptr<Link>> one_lane(std::unique_ptr<Link> link) {
  std::vector<std::unique_ptr<Link>> links;
  links.push_back(std::move(link));
  return links;
}

}  // namespace

HostCommunicator::HostCommunicator(std::unique_ptr<Link> link, const Options& options)
    : HostCommunicator(one_lane(std::move(link)), options) {}

HostCommunicator::HostCommunicator(std::vector<std::unique_ptr<Link>> links, const Options& options)
    : calls_(std::make_shared<Calls>(std::move(links), options)),
      group_(&calls_->add_group(all_ranks(calls_->link()))),
      place_{.name = calls_->link().name(), .rank = calls_->link().rank(), .size = calls_->link().size()} {}

HostCommunicator::HostCommunicator(std::shared_ptr<Calls> calls, std::vector<int> members, const CallPlace& place)
    : calls_(std::move(calls)), group_(&calls_->add_group(std::move(members))), place_(place) {}

HostCommunicator::~HostCommunicator() {
  calls_->give_up(last_call_);
}

void HostCommunicator::set_step(int64_t step) {
  calls_->set_step(step);
}

CommTicket HostCommunicator::all_reduce(const Tensor& data, Reduction reduction) {
  return issue({.kind = CallKind::kAllReduce, .data = data, .reduction = reduction});
}

CommTicket HostCommunicator::reduce_scatter(const Tensor& shard, const Tensor& data, Reduction reduction) {
  return issue({.kind = CallKind::kReduceScatter, .data = data, .piece = shard, .reduction = reduction});
}

CommTicket HostCommunicator::all_gather(const Tensor& data, const Tensor& shard) {
  return issue({.kind = CallKind::kAllGather, .data = data, .piece = shard});
}

CommTicket HostCommunicator::broadcast(const Tensor& data, int root) {
  return issue({.kind = CallKind::kBroadcast, .data = data, .root = root});
}

CommTicket HostCommunicator::all_to_all(const Tensor& received, const Tensor& sent) {
  return issue({.kind = CallKind::kAllToAll, .data = received, .piece = sent});
}

CommTicket HostCommunicator::exchange(const Tensor& received, int source, const Tensor& sent, int destination) {
  return issue(
      {.kind = CallKind::kExchange, .received = received, .sent = sent, .source = source, .destination = destination});
}

void HostCommunicator::barrier() {
  wait(issue({.kind = CallKind::kBarrier}));
}

CommTicket HostCommunicator::issue(CommCall call) {
  check_call(call, place_);
  last_call_ = calls_->issue(call, *group_, place_);
  return {last_call_};
}

void HostCommunicator::wait(CommTicket ticket) {
  calls_->wait(ticket, place_);
}

void HostCommunicator::abort(const std::string& why) {
  calls_->abort(why);
}

std::unique_ptr<Communicator> HostCommunicator::split(int color) {
  std::vector<int32_t> colors(static_cast<size_t>(size()));
  int32_t own = color;
  const auto bytes = static_cast<int64_t>(sizeof(own));
  wait(all_gather({.data = colors.data(), .dtype = DType::kU8, .shape = {bytes * size()}, .device = Device::kCpu},
                  {.data = &own, .dtype = DType::kU8, .shape = {bytes}, .device = Device::kCpu}));
  std::vector<int> members;
  for (size_t rank = 0; rank < colors.size(); ++rank) {
    if (colors[rank] == own) members.push_back(group_->members[rank]);
  }
  CallPlace place = place_;
  place.size = static_cast<int>(members.size());
  place.rank = static_cast<int>(std::count(colors.begin(), colors.begin() + rank(), own));
  place.group = ranks_text(members);
  return std::unique_ptr<Communicator>(new HostCommunicator(calls_, std::move(members), place));
}

}  // namespace litespark::dist
