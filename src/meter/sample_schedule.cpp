// SPDX-License-Identifier: Apache-2.0
#include "meter/sample_schedule.h"

#include <algorithm>

namespace litespark {
namespace {

/// The first step loads kernels, the second records graphs.
constexpr int64_t kWarmingSteps = 2;

}  // namespace

bool SampleSchedule::is_due(int64_t step) const {
  if (options_.every <= 0) return false;
  if (step == kFirstSample) return true;
  if (step < kFirstSample || step % options_.every != 0 || open_seconds_ >= 0) return false;
  return cost_seconds_ + last_cost_seconds_ <= options_.most_share * total_seconds_;
}

void SampleSchedule::took(double seconds, bool was_sampled) {
  total_seconds_ += seconds;
  ++num_steps_;
  if (was_sampled) {
    open_seconds_ = seconds;
    return;
  }
  if (open_seconds_ < 0) {
    if (num_steps_ <= kWarmingSteps) return;
    plain_seconds_ += seconds;
    ++num_plain_;
    return;
  }
  const double usual = num_plain_ > 0 ? plain_seconds_ / static_cast<double>(num_plain_) : 0.0;
  last_cost_seconds_ = std::max(0.0, open_seconds_ + seconds - 2.0 * usual);
  cost_seconds_ += last_cost_seconds_;
  open_seconds_ = -1;
}

}  // namespace litespark
