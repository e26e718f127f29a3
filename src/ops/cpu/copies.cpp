// SPDX-License-Identifier: Apache-2.0
// The mean of the ranks' copies, and how far this rank's was from it.
#include <cmath>

#include "core/step_state.h"
#include "ops/cpu/cpu_backend_impl.h"
#include "ops/cpu/parallel.h"

namespace litespark::cpu {

void CpuBackend::run(const op::MeanOfCopies<Tensor>& op) {
  const int64_t size = op.copy.num_elements();
  auto* const copy = op.copy.as<float>();
  const auto* const sum = op.sum.as<const float>();
  auto* const partials = op.partials.has_value() ? op.partials.as<double>() : nullptr;
  const auto ranks = static_cast<double>(op.ranks);
  parallel_ranges(threads_, size, op::kSquareSumBlock, [&](int64_t begin, int64_t end) {
    double distance = 0;
    double square = 0;
    for (int64_t i = begin; i < end; ++i) {
      const auto mean = static_cast<float>(static_cast<double>(sum[i]) / ranks);
      const double apart = static_cast<double>(copy[i]) - static_cast<double>(mean);
      distance += apart * apart;
      square += static_cast<double>(mean) * static_cast<double>(mean);
      copy[i] = mean;
    }
    if (partials == nullptr) return;
    partials[2 * (begin / op::kSquareSumBlock)] = distance;
    partials[2 * (begin / op::kSquareSumBlock) + 1] = square;
  });
  if (partials == nullptr) return;
  double distance = 0;
  double square = 0;
  for (int64_t block = 0; block < ceil_div(size, op::kSquareSumBlock); ++block) {
    distance += partials[2 * block];
    square += partials[2 * block + 1];
  }
  static_cast<StepState*>(op.state.data)->copy_drift = distance == 0 ? 0 : std::sqrt(distance / square);
}

}  // namespace litespark::cpu
