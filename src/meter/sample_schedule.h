// SPDX-License-Identifier: Apache-2.0
// Which steps are observed: one in so many, and fewer when observing turns out to be dear, so that its cost stays under
// a share of the run's time whatever the device.
#pragma once

#include <cstdint>

namespace litespark {

class SampleSchedule {
 public:
  /// Kernels are loaded and graphs recorded by then.
  static constexpr int64_t kFirstSample = 5;

  struct Options {
    int64_t every = 50;        ///< steps; 0: none is observed
    double most_share = 0.01;  ///< of the time of all steps that observing may cost
  };

  explicit SampleSchedule(Options options) : options_(options) {}

  /// `step` counts from 1 since this process started. True for the first sample; later ones also need room in the
  /// budget for what the last one cost.
  bool is_due(int64_t step) const;
  /// Wall time of each step in turn. A sample's cost is known after the step that follows it, which may be shorter
  /// because the sample waited for the device.
  void took(double seconds, bool was_sampled);

  double cost_seconds() const { return cost_seconds_; }
  double cost_share() const { return total_seconds_ > 0 ? cost_seconds_ / total_seconds_ : 0.0; }

 private:
  Options options_;
  double total_seconds_ = 0;
  double plain_seconds_ = 0;  ///< of steps that neither warm up nor are nor follow a sample
  int64_t num_plain_ = 0;
  int64_t num_steps_ = 0;
  double cost_seconds_ = 0;
  double last_cost_seconds_ = 0;
  double open_seconds_ = -1;  ///< of a sample whose next step is still to come; negative: none
};

}  // namespace litespark
