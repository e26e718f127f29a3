// SPDX-License-Identifier: Apache-2.0
// Launches the Hopper attention backward: statistics of the rows, the blocks of keys (attention_backward_sm90.cuh), the
// summed gradient of the queries in bf16.
#include "core/error.h"
#include "ops/cuda/attention_portable.h"
#include "ops/cuda/device/attention_gradient_rows.cuh"
#include "ops/cuda/device/attention_launch.cuh"
#include "ops/cuda/tensor_map.h"

namespace litespark::cuda {
namespace {

constexpr const char* kOp = "attention_backward";

template <int kHeadDim>
__global__ __launch_bounds__(kGradientRowThreads) void prepare_rows_kernel(const AttentionArguments arguments,
                                                                           const GradientBuffers buffers,
                                                                           bool clears_sum) {
  prepare_gradient_rows<kHeadDim>(arguments, document_table(arguments), buffers, static_cast<int>(blockIdx.x),
                                  static_cast<int>(blockIdx.y), clears_sum);
}

template <int kHeadDim>
__global__ __launch_bounds__(kGradientRowThreads) void finish_rows_kernel(const AttentionArguments arguments,
                                                                          const GradientBuffers buffers) {
  __shared__ GradientRows<kHeadDim> shared;
  finish_gradient_rows<kHeadDim>(arguments, document_table(arguments), buffers, static_cast<int>(blockIdx.x),
                                 static_cast<int>(blockIdx.y), shared);
}

template <int kHeadDim, bool kOrdered>
__global__ __launch_bounds__(kHopperThreads,
                             1) void attention_backward_sm90_kernel(const __grid_constant__ GradientArguments arguments,
                                                                    const __grid_constant__ CUtensorMap keys,
                                                                    const __grid_constant__ CUtensorMap queries,
                                                                    const __grid_constant__ CUtensorMap douts) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL  // other architectures of a build get an empty kernel, which is never launched
  extern __shared__ __align__(16) unsigned char raw[];
  attention_gradient_block<kHeadDim, kOrdered>(align_shared<GradientShared<kHeadDim>>(raw), arguments,
                                               {.keys = keys, .queries = queries, .douts = douts});
#endif
}

GradientBuffers buffers_in(void* scratch, const GradientScratch& layout) {
  unsigned char* const start = static_cast<unsigned char*>(scratch);
  return {.dqueries = reinterpret_cast<float*>(start + layout.dqueries),
          .statistics = reinterpret_cast<float*>(start + layout.statistics),
          .last_query = reinterpret_cast<int32_t*>(start + layout.last_query),
          .first_key_tile = reinterpret_cast<int32_t*>(start + layout.first_key_tile),
          .turns = reinterpret_cast<int32_t*>(start + layout.turns),
          .ticket = reinterpret_cast<int32_t*>(start + layout.ticket)};
}

template <int kHeadDim, bool kOrdered>
void launch_blocks(const GradientArguments& gradient, const AttentionArguments& arguments,
                   const DeviceContext& context) {
  const int64_t columns = int64_t{arguments.num_heads + 2 * arguments.num_kv_heads} * kHeadDim;
  MatrixMapRequest request{
      .data = arguments.qkv, .rows = arguments.num_tokens, .columns = columns, .box_rows = kGradientKeyTile};
  const CUtensorMap keys = make_matrix_map(request);
  request.box_rows = gradient_query_tile(kHeadDim);
  const CUtensorMap queries = make_matrix_map(request);
  request.data = arguments.dout;
  request.columns = int64_t{arguments.num_heads} * kHeadDim;
  const CUtensorMap douts = make_matrix_map(request);
  constexpr int kSharedBytes = aligned_shared_bytes<GradientShared<kHeadDim>>();
  const auto kernel = attention_backward_sm90_kernel<kHeadDim, kOrdered>;
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes), kOp);
  const unsigned blocks = static_cast<unsigned>(gradient.order.slots());
  kernel<<<blocks, kHopperThreads, kSharedBytes, context.stream>>>(gradient, keys, queries, douts);
  check_launch(kOp);
}

template <int kHeadDim>
void launch(const AttentionArguments& arguments, void* scratch, const DeviceContext& context) {
  const GradientBuffers buffers =
      buffers_in(scratch, gradient_scratch(arguments.num_tokens, arguments.num_heads, kHeadDim));
  const GradientArguments gradient{.dqkv = static_cast<bf16*>(arguments.dqkv),
                                   .buffers = buffers,
                                   .order = gradient_order({.num_tokens = arguments.num_tokens,
                                                            .max_documents = arguments.max_documents,
                                                            .uniform_length = arguments.uniform_length,
                                                            .num_heads = arguments.num_on(),
                                                            .num_kv_heads = arguments.num_busy_kv_heads(),
                                                            .head_dim = kHeadDim}),
                                   .num_tokens = arguments.num_tokens,
                                   .num_heads = arguments.num_heads,
                                   .num_kv_heads = arguments.num_kv_heads,
                                   .scale = arguments.scale,
                                   .gates = arguments.gates};
  const dim3 rows_grid(static_cast<unsigned>(tiles_of<gradient_query_tile(kHeadDim)>(arguments.num_tokens)),
                       static_cast<unsigned>(arguments.num_on()));
  prepare_rows_kernel<kHeadDim>
      <<<rows_grid, kGradientRowThreads, 0, context.stream>>>(arguments, buffers, !context.deterministic);
  check_launch(kOp);
  if (context.deterministic) {
    launch_blocks<kHeadDim, true>(gradient, arguments, context);
  } else {
    launch_blocks<kHeadDim, false>(gradient, arguments, context);
  }
  finish_rows_kernel<kHeadDim><<<rows_grid, kGradientRowThreads, 0, context.stream>>>(arguments, buffers);
  check_launch(kOp);
}

}  // namespace

bool attention_has_hopper_backward(int head_dim, DType dtype, const DeviceContext& context) {
  return attention_has_hopper_forward(head_dim, dtype, context);
}

void launch_attention_backward_hopper(const AttentionArguments& arguments, void* scratch,
                                      const DeviceContext& context) {
  if (arguments.head_dim == 64) {
    launch<64>(arguments, scratch, context);
  } else {
    launch<128>(arguments, scratch, context);
  }
}

}  // namespace litespark::cuda
