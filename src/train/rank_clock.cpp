// SPDX-License-Identifier: Apache-2.0
#include "train/rank_clock.h"

#include <limits>

namespace litespark {

RankClock::RankClock(Executor& executor) : executor_(executor), seconds_(std::numeric_limits<double>::quiet_NaN()) {
  for (auto& timer : timers_) timer = executor.backend().make_timer();
}

void RankClock::begin_step(int64_t step) {
  current_ = timers_[static_cast<size_t>(step) % timers_.size()].get();
  const std::vector<double> moments = executor_.waiting([&] { return current_->take(); });
  // Start, a pair for each wait, end.
  seconds_ = std::numeric_limits<double>::quiet_NaN();
  if (moments.size() >= 2 && !executor_.records_communication()) {
    seconds_ = moments.back();
    for (size_t i = 1; i + 2 < moments.size(); i += 2) seconds_ -= moments[i + 1] - moments[i];
  }
  current_->mark();
  executor_.set_wait_timer(current_);
}

void RankClock::end_step() {
  executor_.set_wait_timer(nullptr);
  current_->mark();
}

}  // namespace litespark
