// SPDX-License-Identifier: Apache-2.0
#include "train/checkpoint_saver.h"

#include <filesystem>
#include <utility>

namespace litespark {

CheckpointSaver::CheckpointSaver(const Executor& executor, CheckpointStore& store, const CheckpointContext& context,
                                 Options options)
    : executor_(executor), store_(store), context_(context), options_(options) {
  if (options_.is_async) thread_ = std::thread([this] { work(); });
}

CheckpointSaver::~CheckpointSaver() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void CheckpointSaver::save(const Trainer& trainer, const RunTotals& totals) {
  finish();
  store_.require_space(checkpoint_bytes(executor_.program().params, context_.folder_dtype));
  take_snapshot(executor_, trainer, totals, snapshot_);
  if (!options_.is_async) {
    write_snapshot();
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    is_pending_ = true;
  }
  changed_.notify_all();
}

void CheckpointSaver::finish() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !is_pending_; });
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

int64_t CheckpointSaver::last_saved_step() const {
  const std::lock_guard lock(mutex_);
  return last_saved_step_;
}

void CheckpointSaver::work() {
  while (true) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return is_pending_ || is_stopping_; });
      if (!is_pending_) return;
    }
    std::exception_ptr failure;
    try {
      write_snapshot();
    } catch (...) {
      failure = std::current_exception();
    }
    {
      const std::lock_guard lock(mutex_);
      failure_ = failure;
      is_pending_ = false;
    }
    changed_.notify_all();
  }
}

void CheckpointSaver::write_snapshot() {
  const int64_t step = snapshot_.progress.steps_done;
  if (!std::filesystem::exists(store_.path_of(step))) write_checkpoint(store_.path_of(step), snapshot_, context_);
  store_.set_latest(step);
  {
    const std::lock_guard lock(mutex_);
    last_saved_step_ = step;
  }
  store_.prune(options_.retention);
}

}  // namespace litespark
