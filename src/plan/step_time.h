// SPDX-License-Identifier: Apache-2.0
// The time of one optimizer step in closed form: micro-batches through the pipeline, what of the communication stands
// out, the update.
#pragma once

#include <utility>
#include <vector>

#include "plan/layer_time.h"

namespace litespark {

/// Seconds of a step by cause, on the slowest rank. They add up to `total`.
struct StepSeconds {
  double total = 0;
  double matmul = 0;
  double attention = 0;
  double pointwise = 0;
  double recompute = 0;
  double tensor = 0;  ///< exposed collectives of tensor parallelism
  double context = 0;
  double expert = 0;
  double bubble = 0;     ///< waiting of the pipeline
  double sharded = 0;    ///< exposed gathers and reductions of sharded layers
  double gradients = 0;  ///< exposed sum over data-parallel ranks
  double optimizer = 0;

  double tokens_per_second = 0;  ///< of the whole run
  double model_tflops = 0;       ///< a device: 6 N + causal attention, recomputation left out
};

/// Every part by its name, in the order of reports.
std::vector<std::pair<const char*, double>> step_parts(const StepSeconds& step);

/// `slowness` is what a measured step of this hardware takes, over what is predicted (1: the data sheet). Throws
/// ConfigError through check_workload.
StepSeconds step_seconds(const Workload& workload, const Software& software, const Hardware& machine,
                         double slowness = 1);

}  // namespace litespark
