// SPDX-License-Identifier: Apache-2.0
#include "data/loader.h"

#include <algorithm>
#include <system_error>

#include "core/error.h"

namespace litespark {

Loader::Loader(const BatchSource& source, Options options)
    : source_(source), options_(options), next_to_claim_(options.first_index), next_to_give_(options.first_index) {
  // One more than the depth: the batch in use must not be overwritten.
  slots_.resize(static_cast<size_t>(std::max<int64_t>(options_.depth, 1)) + 1);
  threads_.reserve(static_cast<size_t>(std::max<int64_t>(options_.workers, 0)));
  try {
    for (int64_t worker = 0; worker < options_.workers; ++worker) threads_.emplace_back([this] { work(); });
  } catch (const std::system_error& refusal) {
    const size_t started = threads_.size();
    stop();  // no destructor will: threads that nobody joins would end the process
    throw ConfigError("data.workers", "the system refuses a loader thread: " + refusal.code().message(), started,
                      options_.workers, "lower data.workers or raise the user's limit of processes");
  }
}

Loader::~Loader() {
  stop();
}

void Loader::stop() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Loader::fill(Slot& slot) const {
  slot.failure = nullptr;
  try {
    slot.batch.reset(options_.shape);
    source_.fill(slot.index, slot.batch);
  } catch (...) {
    slot.failure = std::current_exception();
  }
}

void Loader::work() {
  while (true) {
    Slot* slot = nullptr;
    {
      std::unique_lock lock(mutex_);
      // Slot of next_to_claim_ is free once the batch a full turn before it was given and replaced as "current".
      const auto has_room = [this] { return next_to_claim_ + 1 < next_to_give_ + slots_.size(); };
      changed_.wait(lock, [&] { return is_stopping_ || has_room(); });
      if (is_stopping_) return;
      slot = &slots_[next_to_claim_ % slots_.size()];
      slot->index = next_to_claim_++;
      slot->is_ready = false;
    }
    fill(*slot);
    {
      const std::lock_guard lock(mutex_);
      slot->bytes = slot->batch.held_bytes();
      slot->is_ready = true;
    }
    changed_.notify_all();
  }
}

int64_t Loader::held_bytes() {
  const std::lock_guard lock(mutex_);
  int64_t bytes = 0;
  for (const Slot& slot : slots_) bytes += slot.bytes;
  return bytes;
}

const Batch& Loader::get(uint64_t index) {
  std::unique_lock lock(mutex_);
  if (index != next_to_give_) throw InternalError("loader", "batches are given in order", index, next_to_give_);
  Slot& slot = slots_[index % slots_.size()];
  if (threads_.empty()) {
    slot.index = index;
    fill(slot);
    slot.bytes = slot.batch.held_bytes();
    slot.is_ready = true;
  } else {
    changed_.wait(lock, [&] { return slot.is_ready && slot.index == index; });
  }
  ++next_to_give_;
  lock.unlock();
  changed_.notify_all();
  if (slot.failure) std::rethrow_exception(slot.failure);
  return slot.batch;
}

}  // namespace litespark
