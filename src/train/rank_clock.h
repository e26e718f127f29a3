// SPDX-License-Identifier: Apache-2.0
// What a rank spends on a step by itself: from the step's start to its optimizer, without the stretches in which it
// waits for other ranks. A step lasts as long on all ranks, since all wait for the slowest; this tells which one that
// is.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "model/executor.h"

namespace litespark {

class RankClock {
 public:
  /// Of one rank among several; `executor` outlives this.
  explicit RankClock(Executor& executor);

  /// In front of a step's micro-batches, and behind them.
  void begin_step(int64_t step);
  void end_step();
  /// Seconds of the step two before the one begun last, whose end the device is sure to have reached, so that nobody
  /// waits; NaN where it was not timed: for the first two steps, and where waits are parts of recorded graphs.
  double seconds() const { return seconds_; }

 private:
  Executor& executor_;
  std::array<std::unique_ptr<DeviceTimer>, 2> timers_;
  DeviceTimer* current_ = nullptr;
  double seconds_;
};

}  // namespace litespark
