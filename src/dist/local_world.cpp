// SPDX-License-Identifier: Apache-2.0
#include "dist/local_world.h"

#include <cstring>
#include <deque>
#include <exception>
#include <list>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "core/error.h"

namespace litespark {

/// What the ranks of one world share. A message is never stored: it is offered by its sender, copied by its receiver
/// straight from the sender's memory, and then taken back by the sender.
struct LocalWorld::Shared {
  struct Offer {
    dist::Message message;
    bool is_being_copied = false;
    bool is_taken = false;
  };

  explicit Shared(int num_ranks)
      : size(num_ranks),
        offers(static_cast<size_t>(num_ranks) * static_cast<size_t>(num_ranks)),
        has_left(static_cast<size_t>(num_ranks), false),
        was_given(static_cast<size_t>(num_ranks), false) {}

  std::deque<Offer*>& between(int from, int to) {
    return offers[static_cast<size_t>(from) * static_cast<size_t>(size) + static_cast<size_t>(to)];
  }

  const int size;
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::deque<Offer*>> offers;
  std::vector<bool> has_left;
  std::vector<bool> was_given;
  std::optional<std::string> failure;  ///< "rank 2 gave up: ..."
};

class LocalLink final : public dist::Link {
 public:
  LocalLink(std::shared_ptr<LocalWorld::Shared> shared, int rank) : shared_(std::move(shared)), rank_(rank) {}

  ~LocalLink() override {
    {
      const std::lock_guard lock(shared_->mutex);
      shared_->has_left[static_cast<size_t>(rank_)] = true;
    }
    shared_->changed.notify_all();
  }

  std::string name() const override { return "local"; }
  int rank() const override { return rank_; }
  int size() const override { return shared_->size; }

  void transfer(std::span<const dist::Message> sent, std::span<const dist::Message> received,
                dist::Deadline deadline) override {
    std::unique_lock lock(shared_->mutex);
    std::list<Offer> offers;
    for (const dist::Message& message : sent) {
      offers.push_back({.message = message});
      shared_->between(rank_, message.rank).push_back(&offers.back());
    }
    shared_->changed.notify_all();
    try {
      for (size_t index = 0; index < received.size(); ++index) take(lock, received, index, deadline);
      for (const Offer& offer : offers) {
        const int peer = offer.message.rank;
        wait_until(
            lock, peer, deadline, [&] { return offer.is_taken; }, [&] { return std::vector<int>{peer}; });
      }
    } catch (...) {
      take_back(lock, offers);
      throw;
    }
  }

  void abort(const std::string& why) noexcept override {
    {
      const std::lock_guard lock(shared_->mutex);
      if (!shared_->failure) shared_->failure = "rank " + std::to_string(rank_) + " gave up: " + why;
    }
    shared_->changed.notify_all();
  }

 private:
  using Offer = LocalWorld::Shared::Offer;

  /// Waits for `peer`; `awaited` tells at the deadline who all is late.
  template <class Condition, class Awaited>
  void wait_until(std::unique_lock<std::mutex>& lock, int peer, dist::Deadline deadline, const Condition& is_there,
                  const Awaited& awaited) {
    const auto has_left = [&] { return shared_->has_left[static_cast<size_t>(peer)]; };
    const bool is_in_time = shared_->changed.wait_until(
        lock, deadline, [&] { return shared_->failure.has_value() || is_there() || has_left(); });
    if (shared_->failure) throw dist::LinkFailure(*shared_->failure);
    if (is_there()) return;
    if (!is_in_time) throw dist::LinkFailure(dist::late_text(awaited()));
    throw dist::LinkFailure("rank " + std::to_string(peer) + " has left");
  }

  /// Takes the `index`-th of the messages that are to come.
  void take(std::unique_lock<std::mutex>& lock, std::span<const dist::Message> received, size_t index,
            dist::Deadline deadline) {
    const dist::Message& wanted = received[index];
    std::deque<Offer*>& queue = shared_->between(wanted.rank, rank_);
    const auto awaited = [&] {
      std::vector<int> ranks;
      for (const dist::Message& message : received.subspan(index)) {
        if (shared_->between(message.rank, rank_).empty()) ranks.push_back(message.rank);
      }
      return ranks;
    };
    wait_until(
        lock, wanted.rank, deadline, [&] { return !queue.empty(); }, awaited);
    Offer& offer = *queue.front();
    if (!offer.message.label.is_same_call(wanted.label) || offer.message.bytes != wanted.bytes)
      throw dist::LinkFailure(dist::other_call_text(wanted.rank, offer.message.label));
    queue.pop_front();
    offer.is_being_copied = true;
    lock.unlock();
    if (wanted.bytes > 0) std::memcpy(wanted.data, offer.message.data, static_cast<size_t>(wanted.bytes));
    lock.lock();
    offer.is_being_copied = false;
    offer.is_taken = true;
    shared_->changed.notify_all();
  }

  /// The memory of what was sent belongs to its owner again: nobody copies from it any more.
  void take_back(std::unique_lock<std::mutex>& lock, std::list<Offer>& offers) {
    for (Offer& offer : offers) {
      std::erase(shared_->between(rank_, offer.message.rank), &offer);
      shared_->changed.wait(lock, [&] { return !offer.is_being_copied; });
    }
  }

  std::shared_ptr<LocalWorld::Shared> shared_;
  int rank_;
};

LocalWorld::LocalWorld(int size, Options options) : options_(std::move(options)) {
  if (size < 1) throw InternalError("local world", "number of ranks", size, "1 or more");
  for (int lane = 0; lane < (size > 1 ? options_.num_lanes : 1); ++lane)
    lanes_.push_back(std::make_shared<Shared>(size));
}

LocalWorld::~LocalWorld() = default;

std::unique_ptr<Communicator> LocalWorld::communicator(int rank) {
  Shared& first = *lanes_.front();
  const std::lock_guard lock(first.mutex);
  if (rank < 0 || rank >= first.size || first.was_given[static_cast<size_t>(rank)])
    throw InternalError("local world", "there is no such rank left", rank, "each of 0 to size - 1 once");
  first.was_given[static_cast<size_t>(rank)] = true;
  std::vector<std::unique_ptr<dist::Link>> links;
  for (const std::shared_ptr<Shared>& lane : lanes_) links.push_back(std::make_unique<LocalLink>(lane, rank));
  return std::make_unique<dist::HostCommunicator>(std::move(links), options_);
}

void run_local_ranks(int size, const LocalWorld::Options& options,
                     const std::function<void(Communicator& communicator)>& body) {
  LocalWorld world(size, options);
  std::vector<std::unique_ptr<Communicator>> communicators;
  for (int rank = 0; rank < size; ++rank) communicators.push_back(world.communicator(rank));
  std::mutex mutex;
  std::exception_ptr first;
  std::vector<std::thread> threads;
  for (std::unique_ptr<Communicator>& communicator : communicators) {
    threads.emplace_back([&] {
      try {
        body(*communicator);
      } catch (const std::exception& error) {
        {
          const std::lock_guard lock(mutex);
          if (!first) first = std::current_exception();
        }
        communicator->abort(error.what());
      }
      communicator.reset();  // others that still wait for this rank are told that it left
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (first) std::rethrow_exception(first);
}

}  // namespace litespark
