// SPDX-License-Identifier: Apache-2.0
// Saves off the step's path: a thread copies the state while the next step runs up to its optimizer, and writes the
// copy while the ones after that run. One save at a time: the next one waits for it, and so does the end of the run.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <future>
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
    bool writes = true;  ///< of several ranks one does; the others send what they hold
  };

  /// Buffers for one snapshot are made by the first save and kept. `context` and `store` outlive the saver.
  CheckpointSaver(Executor& executor, CheckpointStore& store, const CheckpointContext& context, Options options);
  /// Waits for a running save; its error is lost, so call finish() first.
  ~CheckpointSaver();
  CheckpointSaver(const CheckpointSaver&) = delete;
  CheckpointSaver& operator=(const CheckpointSaver&) = delete;

  /// Starts (or, without async, completes) the save of the state between two steps; the trainer holds its next update
  /// until the state is copied. Several ranks, which all call it, stand still until it is gathered. Throws what the
  /// previous save threw, before anything of this one happens; IoError when there is no space.
  void save(Trainer& trainer, const RunTotals& totals);
  /// Waits until the last save is durable; throws what it threw.
  void finish();
  /// Step of the newest save that is durable; -1 before the first.
  int64_t last_saved_step() const;

 private:
  void work();
  void hand_over();
  void copy_snapshot();
  void write_snapshot();

  Executor& executor_;
  CheckpointStore& store_;
  const CheckpointContext& context_;
  Options options_;
  SnapshotReader reader_;
  TrainingSnapshot snapshot_;
  bool is_gathered_ = false;   ///< the snapshot under way has its tensors already
  std::promise<void> copied_;  ///< of the snapshot under way: its tensors are on the host

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool is_pending_ = false;  ///< a snapshot waits or is being written
  bool is_stopping_ = false;
  std::exception_ptr failure_;
  int64_t last_saved_step_ = -1;
  std::thread thread_;
};

}  // namespace litespark
