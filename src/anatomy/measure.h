// SPDX-License-Identifier: Apache-2.0
// How long a device takes for some work, on its own time line: the same call for a CPU and a GPU.
#pragma once

#include <functional>

#include "ops/backend.h"

namespace litespark::anatomy {

/// How a chapter measures.
struct MeasureOptions {
  double seconds = 0.2;          ///< of each measurement, about; one run at least
  DType compute = DType::kBF16;  ///< of matmuls and attention
};

struct Timing {
  double median_seconds = 0;
  double best_seconds = 0;
  int num_runs = 0;
};

/// Runs `body`, which issues ops, once without a clock (kernels are loaded, pages touched, caches as they will be) and
/// then again and again for about `seconds`.
Timing time_runs(Backend& backend, double seconds, const std::function<void()>& body);

/// The median of numbers; 0 of none.
double median_of(std::vector<double> values);

}  // namespace litespark::anatomy
