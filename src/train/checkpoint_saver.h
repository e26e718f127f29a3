// SPDX-License-Identifier: Apache-2.0
// Saves off the step's path: the state is copied between two steps, a thread writes the copy. One save at a time: the
// next one waits for it, and so does the end of the run.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>

#include "train/checkpoint.h"
#include "train/checkpoint_store.h"

namespace litespark {

class CheckpointSaver {
 public:
  struct Options {
    RetentionPolicy retention;
    bool is_async = true;
  };

  /// Buffers for one snapshot are made by the first save and kept. `context` and `store` outlive the saver.
  CheckpointSaver(const Executor& executor, CheckpointStore& store, const CheckpointContext& context, Options options);
  /// Waits for a running save; its error is lost, so call finish() first.
  ~CheckpointSaver();
  CheckpointSaver(const CheckpointSaver&) = delete;
  CheckpointSaver& operator=(const CheckpointSaver&) = delete;

  /// Copies the state and starts (or, without async, completes) its save. Throws what the previous save threw, before
  /// anything of this one happens; IoError when there is no space.
  void save(const Trainer& trainer, const RunTotals& totals);
  /// Waits until the last save is durable; throws what it threw.
  void finish();
  /// Step of the newest save that is durable; -1 before the first.
  int64_t last_saved_step() const;

 private:
  void work();
  void write_snapshot();

  const Executor& executor_;
  CheckpointStore& store_;
  const CheckpointContext& context_;
  Options options_;
  TrainingSnapshot snapshot_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool is_pending_ = false;  ///< a snapshot waits or is being written
  bool is_stopping_ = false;
  std::exception_ptr failure_;
  int64_t last_saved_step_ = -1;
  std::thread thread_;
};

}  // namespace litespark
