// SPDX-License-Identifier: Apache-2.0
// delta[h, n] = sum over d of dout * out: what the backward kernels subtract from dP. One warp a (row, head).
#include "core/checked.h"
#include "ops/cuda/device/attention_kernel.cuh"
#include "ops/cuda/device/reduce.cuh"
#include "ops/cuda/device/vector.cuh"

namespace litespark::cuda {
namespace {

constexpr int kWarps = 8;

template <class T>
__global__ void attention_delta_kernel(const AttentionArguments arguments) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int64_t item = int64_t{blockIdx.x} * kWarps + threadIdx.x / kWarpSize;
  const int num_on = arguments.gates.num_on(0, arguments.num_heads);
  if (item >= int64_t{arguments.num_tokens} * num_on) return;
  const int64_t token = item / num_on;
  const int64_t head = arguments.query_head(static_cast<int>(item % num_on));
  const int64_t start = token * arguments.out_stride() + head * arguments.head_dim;
  const T* const out = static_cast<const T*>(arguments.out) + start;
  const T* const dout = static_cast<const T*>(arguments.dout) + start;
  float sum = 0;
  for (int d = lane; d < arguments.head_dim; d += kWarpSize) sum += as_float(out[d]) * as_float(dout[d]);
  sum = warp_sum(sum);
  if (lane == 0) arguments.delta[head * arguments.num_tokens + token] = sum;
}

}  // namespace

void launch_attention_delta(const AttentionArguments& arguments, DType dtype, const DeviceContext& context) {
  const int64_t items = int64_t{arguments.num_tokens} * arguments.num_on();
  visit_float_dtype("attention_backward", dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    launch_kernel({.kernel = attention_delta_kernel<T>,
                   .blocks_x = static_cast<unsigned>(ceil_div(items, kWarps)),
                   .threads = kWarps * kWarpSize,
                   .name = "attention_backward"},
                  arguments, context);
  });
}

}  // namespace litespark::cuda
