// SPDX-License-Identifier: Apache-2.0
// A step's message: what one rank says, and the sum over all.
#include <algorithm>
#include <array>

#include "core/step_state.h"
#include "ops/cpu/cpu_backend_impl.h"

namespace litespark::cpu {

void CpuBackend::run(const op::PutStepSums<Tensor>& op) {
  const auto& state = *static_cast<const StepState*>(op.state.data);
  const std::array<double, op::kNumStepSums> sums = {state.loss_sum,
                                                     state.z_loss_sum,
                                                     static_cast<double>(state.supervised_tokens),
                                                     static_cast<double>(state.bad_tokens),
                                                     state.gradient_square_sum,
                                                     static_cast<double>(state.counts.batch_tokens),
                                                     static_cast<double>(state.counts.stop_requests),
                                                     state.counts.joules,
                                                     state.copy_drift,
                                                     state.counts.seconds};
  std::copy(sums.begin(), sums.end(), op.sums.as<double>());
}

void CpuBackend::run(const op::TakeStepSums<Tensor>& op) {
  std::array<double, op::kNumStepSums> sums{};
  const double* row = op.sums.as<double>();
  for (int64_t rank = 0; rank < op.sums.rows(); ++rank) {
    const bool leads = rank % op.replica_ranks == 0;
    for (int64_t i = 0; i < op::kNumStepSums; ++i, ++row) {
      double& sum = sums[static_cast<size_t>(i)];
      if (leads || op::is_own_sum(i)) sum = op::joined_step_sum(i, sum, *row);
    }
  }
  auto& state = *static_cast<StepState*>(op.state.data);
  state.loss_sum = sums[0];
  state.z_loss_sum = sums[1];
  state.supervised_tokens = static_cast<int64_t>(sums[2]);
  state.bad_tokens = static_cast<int64_t>(sums[3]);
  state.gradient_square_sum = sums[4];
  state.counts.batch_tokens = static_cast<int64_t>(sums[5]);
  state.counts.stop_requests = static_cast<int64_t>(sums[6]);
  state.counts.joules = sums[7];
  state.largest_copy_drift = sums[op::kStepDrift];
}

}  // namespace litespark::cpu
