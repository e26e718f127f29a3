// SPDX-License-Identifier: Apache-2.0
// The mean of the ranks' copies, and how far this rank's was from it.
#include "core/step_state.h"
#include "ops/cuda/check.h"
#include "ops/cuda/cuda_backend_impl.h"
#include "ops/cuda/device/reduce.cuh"
#include "ops/cuda/launch.h"

namespace litespark::cuda {
namespace {

inline constexpr int kCopyThreads = 256;

// A block takes kSquareSumBlock elements, 12 bytes of traffic each; neighbouring threads take neighbours. Norms and
// biases are few, so that reading them in vectors would save nothing.
__global__ void __launch_bounds__(kCopyThreads)
    mean_of_copies_kernel(float* copy, const float* sum, double* partials, int64_t size, double ranks) {
  __shared__ double shared[kCopyThreads / kWarpSize];
  const int64_t first = static_cast<int64_t>(blockIdx.x) * op::kSquareSumBlock;
  const int64_t end = first + op::kSquareSumBlock < size ? first + op::kSquareSumBlock : size;
  double distance = 0;
  double square = 0;
  for (int64_t i = first + threadIdx.x; i < end; i += kCopyThreads) {
    const float mean = static_cast<float>(static_cast<double>(sum[i]) / ranks);
    const double apart = static_cast<double>(copy[i]) - static_cast<double>(mean);
    distance += apart * apart;
    square += static_cast<double>(mean) * static_cast<double>(mean);
    copy[i] = mean;
  }
  if (partials == nullptr) return;
  distance = block_sum(distance, shared);
  __syncthreads();  // both sums pass through the same shared memory
  square = block_sum(square, shared);
  if (threadIdx.x != 0) return;
  partials[2 * blockIdx.x] = distance;
  partials[2 * blockIdx.x + 1] = square;
}

// One thread: two numbers for every kSquareSumBlock elements.
__global__ void copy_drift_kernel(StepState* state, const double* partials, int64_t blocks) {
  double distance = 0;
  double square = 0;
  for (int64_t block = 0; block < blocks; ++block) {
    distance += partials[2 * block];
    square += partials[2 * block + 1];
  }
  state->copy_drift = distance == 0 ? 0 : sqrt(distance / square);
}

}  // namespace

void CudaBackend::run(const op::MeanOfCopies<Tensor>& op) {
  const int64_t size = op.copy.num_elements();
  const int64_t blocks = ceil_div(size, op::kSquareSumBlock);
  if (blocks == 0) return;
  auto* const partials = op.partials.has_value() ? op.partials.as<double>() : nullptr;
  mean_of_copies_kernel<<<grid_size(op.kName, blocks), kCopyThreads, 0, context_.stream>>>(
      op.copy.as<float>(), op.sum.as<const float>(), partials, size, static_cast<double>(op.ranks));
  if (partials != nullptr) {
    copy_drift_kernel<<<1, 1, 0, context_.stream>>>(static_cast<StepState*>(op.state.data), partials, blocks);
  }
  check_launch(op.kName);
}

}  // namespace litespark::cuda
