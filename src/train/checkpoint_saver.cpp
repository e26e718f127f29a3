// SPDX-License-Identifier: Apache-2.0
#include "train/checkpoint_saver.h"

#include <filesystem>
#include <utility>

namespace litespark {

CheckpointSaver::CheckpointSaver(Executor& executor, CheckpointStore& store, const CheckpointContext& context,
                                 Options options)
    : executor_(executor), store_(store), context_(context), options_(options), reader_(executor) {
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

void CheckpointSaver::save(Trainer& trainer, const RunTotals& totals) {
  finish();
  if (options_.writes) {
    const Program& program = executor_.program();
    store_.require_space(checkpoint_bytes(program.whole_params, context_.folder_dtype, num_residuals(program)));
  }
  is_gathered_ = executor_.communicator() != nullptr;
  if (is_gathered_) {
    take_gathered_snapshot(executor_, trainer, totals, options_.writes, snapshot_);
    if (!options_.writes) return;
    if (options_.is_async) return hand_over();
    write_snapshot();
    return;
  }
  reader_.begin(trainer, totals, snapshot_);
  if (!options_.is_async) {
    reader_.copy_tensors(snapshot_);
    write_snapshot();
    return;
  }
  copied_ = std::promise<void>();
  trainer.hold_update(copied_.get_future().share());
  hand_over();
}

void CheckpointSaver::hand_over() {
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
      if (!is_gathered_) copy_snapshot();
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

void CheckpointSaver::copy_snapshot() {
  try {
    reader_.copy_tensors(snapshot_);
  } catch (...) {
    copied_.set_exception(std::current_exception());
    throw;
  }
  copied_.set_value();
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
