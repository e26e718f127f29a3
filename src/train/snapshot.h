// SPDX-License-Identifier: Apache-2.0
// A training state on the host. Taken in two halves: what is small at once, between two steps; the tensors by another
// thread, while the next step runs up to its optimizer.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "model/executor.h"
#include "train/trainer.h"

namespace litespark {

/// Totals that go on over restarts.
struct RunTotals {
  double joules = 0;             ///< measured or estimated so far; means nothing while no second is metered
  double metered_seconds = 0;    ///< wall time that the joules cover
  double unmetered_seconds = 0;  ///< wall time whose energy is unknown
  double train_seconds = 0;      ///< of steps alone

  bool operator==(const RunTotals&) const = default;
};

/// A copy of everything: training may go on while it is written.
struct TrainingSnapshot {
  Trainer::Progress progress;
  RunTotals totals;
  std::vector<float> master, first_moment, second_moment;  ///< flat order of Program::whole_params
  /// Likewise, of each data rank what it has not told the others of its gradients yet; empty without error feedback.
  std::vector<std::vector<float>> residuals;
};

class SnapshotReader {
 public:
  /// Makes the device's readers, each with a bounded ring of page-locked memory. `executor` outlives this.
  explicit SnapshotReader(const Executor& executor);

  /// Between two steps, by the thread that trains: progress, totals, and the point that copy_tensors() sees.
  void begin(const Trainer& trainer, const RunTotals& totals, TrainingSnapshot& snapshot);
  /// Fills the tensors (their buffers are reused), several at a time; returns when all are there. Any thread; until
  /// then no optimizer may run. Throws DeviceError.
  void copy_tensors(TrainingSnapshot& snapshot) const;

 private:
  const Executor& executor_;
  /// One a tensor: a single thread that copies out of page-locked memory is slower than the bus.
  std::array<std::unique_ptr<SideReader>, 3> readers_;
};

/// Both halves at once, of several ranks: all call it between two steps. Where `keeps` is false the tensors are only
/// sent, and stay empty.
void take_gathered_snapshot(Executor& executor, Trainer& trainer, const RunTotals& totals, bool keeps,
                            TrainingSnapshot& snapshot);

/// Both halves at once, for a caller that waits.
void take_snapshot(const Executor& executor, const Trainer& trainer, const RunTotals& totals,
                   TrainingSnapshot& snapshot);

}  // namespace litespark
