// SPDX-License-Identifier: Apache-2.0
#include "dist/gloo/gloo_link.h"

#include <algorithm>
#include <list>
#include <utility>

#include "dist/payload_hash.h"

namespace litespark::dist {
namespace {

/// How often somebody looks whether who is waited for is still there.
constexpr auto kLookPeriod = std::chrono::milliseconds(50);

}  // namespace

class GlooLink::Transfer {
 public:
  Transfer(GlooLink& link, Deadline deadline) : link_(link), deadline_(deadline) {
    {
      const std::lock_guard lock(link_.mutex_);
      if (link_.is_aborted_) throw LinkFailure("aborted: " + link_.why_);
      link_.transfer_ = this;
      link_.is_late_ = false;  // the one before may have ended well just as it came to be late
      number_ = ++link_.num_transfers_;
    }
    link_.changed_.notify_all();
  }
  ~Transfer() {
    {
      std::unique_lock lock(link_.mutex_);
      // See transfer.
      link_.changed_.wait(lock, [&] { return !link_.is_saying_farewell_; });
      if (link_.transfer_ == this) link_.transfer_ = nullptr;
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
    entry.label_buffer = make_buffer(*link_.context_, &entry.label, sizeof(CallLabel));
    if (message.bytes > 0) entry.data_buffer = make_buffer(*link_.context_, message.data, message.bytes);
    return entry;
  }

  Deadline deadline() const { return deadline_; }
  int64_t number() const { return number_; }

  /// `waited_for`, and whoever else has not even announced a message: each once, in ascending order.
  std::vector<int> late_ranks(int waited_for) {
    std::vector<int> ranks = {waited_for};
    for (Entry& entry : entries_) {
      if (std::atomic_ref(entry.label.number).load() == 0) ranks.push_back(entry.message.rank);
    }
    std::sort(ranks.begin(), ranks.end());
    ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
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
      for (GlooBuffer* buffer : {&entry.label_buffer, &entry.data_buffer}) {
        if (*buffer == nullptr) continue;
        (*buffer)->abortWaitSend();
        (*buffer)->abortWaitRecv();
      }
    }
  }

 private:
  GlooLink& link_;
  Deadline deadline_;
  int64_t number_ = 0;
  std::list<Entry> entries_;
};

GlooLink::GlooLink(Rendezvous& rendezvous, const std::string& mesh, const std::string& secret, Deadline deadline,
                   const GlooLink* beside)
    : rank_(rendezvous.place().rank), size_(rendezvous.place().size) {
  if (beside != nullptr) device_ = beside->device_;
  if (size_ == 1) return;
  try {
    if (device_ == nullptr) device_ = make_gloo_device(rendezvous.own_address());
    context_ = connect_mesh(rendezvous, mesh, secret, device_, deadline);
    last_words_ = std::make_unique<LastWords>(context_);
    watcher_ = std::thread([this] { watch(); });
  } catch (const LinkFailure&) {
    throw;  // of what there is nothing to close
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
  announce_leave();
  if (last_words_ != nullptr && !is_aborted_) last_words_->await_leaves();
  failed_.clear();
  last_words_.reset();
  close();
}

void GlooLink::announce_leave() noexcept {
  if (last_words_ != nullptr && !is_aborted_) last_words_->announce_leave();
}

void GlooLink::transfer(std::span<const Message> sent, std::span<const Message> received, Deadline deadline) {
  auto under_way = std::make_unique<Transfer>(*this, deadline);
  try {
    move(*under_way, sent, received);
  } catch (const LinkFailure&) {
    // A farewell stands behind what is half sent, and would stand there for good without the buffers.
    const std::lock_guard lock(mutex_);
    if (!is_aborted_) failed_.push_back(std::move(under_way));
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

void GlooLink::wait(int rank, GlooBuffer& buffer, Half half) {
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
      const int64_t late = transfer_->number();
      is_late_ = true;
      transfer_->end_waits();
      changed_.wait(lock, [&] { return is_ending_ || transfer_ == nullptr || transfer_->number() != late; });
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
    if (rank == rank_ || last_words_->has_said_farewell(rank) || last_words_->has_left(rank)) continue;
    if (const auto error = last_words_->break_of(rank)) first_lost_ = {rank, *error};
  }
  if (awaited_.buffer == nullptr) return;
  if (!last_words_->has_said_farewell(awaited_.rank) && !last_words_->break_of(awaited_.rank)) return;
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

std::optional<std::string> GlooLink::failure_of(int rank) {
  if (last_words_ == nullptr) return std::nullopt;
  const std::optional<std::string> why = last_words_->farewell_of(rank);
  if (!why) return std::nullopt;
  return "rank " + std::to_string(rank) + " gave up: " + *why;
}

std::vector<int> GlooLink::missed_ranks() {
  const std::lock_guard lock(mutex_);
  if (transfer_ == nullptr || awaited_.buffer == nullptr) return {};
  std::vector<int> ranks = transfer_->late_ranks(awaited_.rank);
  std::erase_if(ranks, [this](int rank) { return last_words_->has_said_farewell(rank); });
  return ranks;
}

void GlooLink::announce_failure(const std::string& why) noexcept {
  const std::lock_guard telling(telling_mutex_);
  {
    const std::lock_guard lock(mutex_);
    if (!why_.empty()) return;
    why_ = why.empty() ? "no reason" : why;
  }
  if (last_words_ != nullptr) last_words_->say_farewell(why_);
}

void GlooLink::abort(const std::string& why) noexcept {
  announce_failure(why);
  std::vector<int> waiting;
  {
    std::unique_lock lock(mutex_);
    if (is_aborted_.exchange(true)) return changed_.wait(lock, [this] { return has_ended_; });
    is_saying_farewell_ = true;
    if (transfer_ != nullptr) waiting = transfer_->ranks();
  }
  if (last_words_ != nullptr) last_words_->await_hearing(waiting);
  std::vector<std::unique_ptr<Transfer>> failed;
  {
    const std::lock_guard lock(mutex_);
    is_saying_farewell_ = false;
    if (transfer_ != nullptr) transfer_->end_waits();
    failed.swap(failed_);
  }
  changed_.notify_all();
  close();
  failed.clear();
  {
    const std::lock_guard lock(mutex_);
    has_ended_ = true;
  }
  changed_.notify_all();
}

void GlooLink::close() noexcept {
  if (context_ != nullptr && !std::exchange(is_closed_, true)) close_mesh(*context_);
}

}  // namespace litespark::dist
