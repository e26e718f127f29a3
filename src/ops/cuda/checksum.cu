// SPDX-License-Identifier: Apache-2.0
// Checksums, for the search for silent errors.
#include "ops/cuda/check.h"
#include "ops/cuda/cuda_backend_impl.h"
#include "ops/cuda/device/reduce.cuh"
#include "ops/cuda/launch.h"

namespace litespark::cuda {
namespace {

inline constexpr int kChecksumThreads = 256;
inline constexpr int kElementsPerThread = 16;

// Neighbouring threads read neighbouring elements of 4, 2 or 1 bytes, all of a thread's loads under way at once; one
// atomic addition a block. Integers add up to the same sum in any order, so the result does not depend on it.
template <class Bits>
__global__ void __launch_bounds__(kChecksumThreads)
    checksum_kernel(unsigned long long* out, const Bits* x, int64_t size) {
  __shared__ unsigned long long shared[kChecksumThreads / kWarpSize];
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kChecksumThreads * kElementsPerThread + threadIdx.x;
  unsigned long long sum = 0;
#pragma unroll
  for (int k = 0; k < kElementsPerThread; ++k) {
    const int64_t i = first + k * kChecksumThreads;
    if (i < size) sum += op::checksum_term(i, x[i]);
  }
  sum = block_sum(sum, shared);
  if (threadIdx.x == 0) atomicAdd(out, sum);
}

}  // namespace

void CudaBackend::run(const op::Checksum<Tensor>& op) {
  check(cudaMemsetAsync(op.out.data, 0, sizeof(unsigned long long), context_.stream), op.kName);
  const int64_t size = op.x.num_elements();
  if (size == 0) return;
  const int64_t blocks = ceil_div(size, kChecksumThreads * kElementsPerThread);
  const unsigned grid = grid_size(op.kName, blocks);
  auto* const out = static_cast<unsigned long long*>(op.out.data);
  const auto launch = [&](const auto* bits) {
    checksum_kernel<<<grid, kChecksumThreads, 0, context_.stream>>>(out, bits, size);
  };
  switch (dtype_bytes(op.x.dtype)) {
    case 4: launch(static_cast<const uint32_t*>(op.x.data)); break;
    case 2: launch(static_cast<const uint16_t*>(op.x.data)); break;
    default: launch(static_cast<const uint8_t*>(op.x.data)); break;
  }
  check_launch(op.kName);
}

}  // namespace litespark::cuda
