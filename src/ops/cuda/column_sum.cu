// SPDX-License-Identifier: Apache-2.0
#include "core/checked.h"
#include "ops/cuda/check.h"
#include "ops/cuda/column_sum.h"
#include "ops/cuda/device/reduce.cuh"
#include "ops/cuda/launch.h"

namespace litespark::cuda {
namespace {

inline constexpr int kGroups = 32;

// A block owns 32 columns; warp g adds parts g, g + 32, ... in order, then warp 0 adds the 32 results in order.
// Traffic: 4 bytes read a partial. 32 warps a block because `parts` is a few hundred and columns a few thousand: one
// thread a column would wait for every load in turn.
__global__ void __launch_bounds__(kWarpSize* kGroups) column_sum_kernel(ColumnSum sum) {
  __shared__ float groups[kGroups][kWarpSize];
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int group = static_cast<int>(threadIdx.x) / kWarpSize;
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kWarpSize + lane;
  float total = 0;
  if (column < sum.columns) {
#pragma unroll 8
    for (int64_t part = group; part < sum.parts; part += kGroups) total += sum.partials[part * sum.stride + column];
  }
  groups[group][lane] = total;
  __syncthreads();
  if (group != 0 || column >= sum.columns) return;
  total = sum.accumulate ? sum.out[column] : 0.0f;
#pragma unroll
  for (int g = 0; g < kGroups; ++g) total += groups[g][lane];
  sum.out[column] = total;
}

}  // namespace

void launch_column_sum(const ColumnSum& sum, cudaStream_t stream) {
  if (sum.columns == 0) return;
  column_sum_kernel<<<grid_size(sum.op, ceil_div(sum.columns, kWarpSize)), kWarpSize * kGroups, 0, stream>>>(sum);
  check_launch(sum.op);
}

}  // namespace litespark::cuda
