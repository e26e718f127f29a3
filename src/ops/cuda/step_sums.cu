// SPDX-License-Identifier: Apache-2.0
// A step's message: what one rank says, and the sum over all. One thread each: 80 bytes a rank, and the order of the
// sum is part of the contract.
#include "core/step_state.h"
#include "ops/cuda/check.h"
#include "ops/cuda/cuda_backend_impl.h"
#include "ops/cuda/launch.h"

namespace litespark::cuda {
namespace {

__global__ void put_step_sums_kernel(double* sums, const StepState* state) {
  sums[0] = state->loss_sum;
  sums[1] = state->z_loss_sum;
  sums[2] = static_cast<double>(state->supervised_tokens);
  sums[3] = static_cast<double>(state->bad_tokens);
  sums[4] = state->gradient_square_sum;
  sums[5] = static_cast<double>(state->counts.batch_tokens);
  sums[6] = static_cast<double>(state->counts.stop_requests);
  sums[7] = state->counts.joules;
  sums[op::kStepDrift] = state->copy_drift;
  sums[op::kStepSeconds] = state->counts.seconds;
}

__global__ void take_step_sums_kernel(StepState* state, const double* rows, int64_t ranks, int replica_ranks) {
  double sums[op::kNumStepSums] = {};
  for (int64_t rank = 0; rank < ranks; ++rank) {
#pragma unroll
    for (int64_t i = 0; i < op::kNumStepSums; ++i) {
      const double value = rows[rank * op::kNumStepSums + i];
      if (rank % replica_ranks == 0 || op::is_own_sum(i)) sums[i] = op::joined_step_sum(i, sums[i], value);
    }
  }
  state->loss_sum = sums[0];
  state->z_loss_sum = sums[1];
  state->supervised_tokens = static_cast<int64_t>(sums[2]);
  state->bad_tokens = static_cast<int64_t>(sums[3]);
  state->gradient_square_sum = sums[4];
  state->counts.batch_tokens = static_cast<int64_t>(sums[5]);
  state->counts.stop_requests = static_cast<int64_t>(sums[6]);
  state->counts.joules = sums[7];
  state->largest_copy_drift = sums[op::kStepDrift];
}

}  // namespace

void CudaBackend::run(const op::PutStepSums<Tensor>& op) {
  put_step_sums_kernel<<<1, 1, 0, context_.stream>>>(op.sums.as<double>(),
                                                     static_cast<const StepState*>(op.state.data));
  check_launch(op.kName);
}

void CudaBackend::run(const op::TakeStepSums<Tensor>& op) {
  take_step_sums_kernel<<<1, 1, 0, context_.stream>>>(static_cast<StepState*>(op.state.data), op.sums.as<double>(),
                                                      op.sums.rows(), op.replica_ranks);
  check_launch(op.kName);
}

}  // namespace litespark::cuda
