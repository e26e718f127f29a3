// SPDX-License-Identifier: Apache-2.0
// Launches the Hopper attention backward, of whole attention or of a part that context ranks share: statistics of the
// rows, the blocks of keys (attention_backward_sm90.cuh), the summed gradient of the queries.
#include "core/error.h"
#include "ops/cuda/attention_portable.h"
#include "ops/cuda/device/attention_gradient_rows.cuh"
#include "ops/cuda/device/attention_launch.cuh"
#include "ops/cuda/tensor_map.h"

namespace litespark::cuda {
namespace {

constexpr const char* kOp = "attention_backward";

template <int kHeadDim, bool kIsPart>
__global__ __launch_bounds__(kGradientRowThreads) void prepare_rows_kernel(const AttentionArguments arguments,
                                                                           const GradientBuffers buffers,
                                                                           bool clears_sum) {
  prepare_gradient_rows<kHeadDim, kIsPart>(arguments, document_table(arguments), buffers, static_cast<int>(blockIdx.x),
                                           static_cast<int>(blockIdx.y), clears_sum);
}

template <int kHeadDim, bool kIsPart>
__global__ __launch_bounds__(kGradientRowThreads) void finish_rows_kernel(const AttentionArguments arguments,
                                                                          const GradientBuffers buffers,
                                                                          int num_slots) {
  const int tile = static_cast<int>(blockIdx.x);
  const int slot = static_cast<int>(blockIdx.y);
  if constexpr (kIsPart) {
    add_gradient_rows<kHeadDim>(arguments, document_table(arguments), buffers, tile, slot);
  } else {
    __shared__ GradientRows<kHeadDim> shared;
    const int first = slot * GradientRows<kHeadDim>::kHeads;
    finish_gradient_rows<kHeadDim>(arguments, document_table(arguments), buffers, tile, first,
                                   min(first + GradientRows<kHeadDim>::kHeads, num_slots), shared);
  }
}

template <int kHeadDim, bool kOrdered, bool kIsPart>
__global__ __launch_bounds__(kHopperThreads,
                             1) void attention_backward_sm90_kernel(const __grid_constant__ GradientArguments arguments,
                                                                    const __grid_constant__ CUtensorMap keys,
                                                                    const __grid_constant__ CUtensorMap queries,
                                                                    const __grid_constant__ CUtensorMap douts) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL  // other architectures of a build get an empty kernel, which is never launched
  attention_gradient_block<kHeadDim, kOrdered, kIsPart>(align_shared<GradientShared<kHeadDim>>(launched_shared()),
                                                        arguments, {.keys = keys, .queries = queries, .douts = douts});
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

template <int kHeadDim, bool kOrdered, bool kIsPart>
void launch_blocks(const GradientArguments& gradient, const AttentionArguments& arguments,
                   const DeviceContext& context) {
  using Shape = GradientShape<kHeadDim>;
  const int64_t columns = int64_t{arguments.num_heads + 2 * arguments.num_kv_heads} * kHeadDim;
  MatrixMapRequest request{.data = arguments.qkv,
                           .rows = arguments.num_tokens,
                           .columns = columns,
                           .box_rows = Shape::kQueries,
                           .box_row_bytes = Shape::kRowBytes};
  const CUtensorMap queries = make_matrix_map(request);
  request.data = arguments.dout;
  request.columns = int64_t{arguments.num_heads} * kHeadDim;
  const CUtensorMap douts = make_matrix_map(request);
  request.data = kIsPart ? arguments.keys_values : arguments.qkv;
  request.columns = kIsPart ? int64_t{2} * arguments.num_kv_heads * kHeadDim : columns;
  request.box_rows = kGradientKeyTile;
  request.box_row_bytes = Shape::kKeyRowBytes;
  const CUtensorMap keys = make_matrix_map(request);
  launch_kernel({.kernel = attention_backward_sm90_kernel<kHeadDim, kOrdered, kIsPart>,
                 .blocks_x = static_cast<unsigned>(gradient.order.slots()),
                 .threads = kHopperThreads,
                 .shared_bytes = aligned_shared_bytes<GradientShared<kHeadDim>>(),
                 .name = kOp},
                gradient, context, keys, queries, douts);
}

GradientArguments gradient_arguments(const AttentionArguments& arguments, const GradientBuffers& buffers) {
  const bool is_part = arguments.is_part();
  return {.gradients = is_part ? static_cast<void*>(arguments.dkeys_values) : arguments.dqkv,
          .buffers = buffers,
          .order = gradient_order({.num_tokens = arguments.num_tokens,
                                   .max_documents = arguments.max_documents,
                                   .uniform_length = arguments.uniform_length,
                                   .num_heads = arguments.num_on(),
                                   .num_kv_heads = arguments.num_busy_kv_heads(),
                                   .head_dim = arguments.head_dim}),
          .num_tokens = arguments.num_tokens,
          .num_heads = arguments.num_heads,
          .num_kv_heads = arguments.num_kv_heads,
          .scale = arguments.scale,
          .gates = arguments.gates,
          .angles = arguments.angles,
          .abs_max = arguments.abs_max,
          .sight = is_part ? gradient_sight(arguments.part, arguments.num_tokens) : GradientSight{}};
}

template <int kHeadDim, bool kIsPart>
void launch(const AttentionArguments& arguments, void* scratch, const DeviceContext& context) {
  const GradientBuffers buffers =
      buffers_in(scratch, gradient_scratch(arguments.num_tokens, arguments.num_heads, kHeadDim));
  const GradientArguments gradient = gradient_arguments(arguments, buffers);
  const auto tiles = static_cast<unsigned>(tiles_of<gradient_query_tile(kHeadDim)>(arguments.num_tokens));
  const auto heads = static_cast<unsigned>(arguments.num_on());
  launch_kernel({.kernel = prepare_rows_kernel<kHeadDim, kIsPart>,
                 .blocks_x = tiles,
                 .blocks_y = heads,
                 .threads = kGradientRowThreads,
                 .name = kOp},
                arguments, context, buffers, !context.deterministic);
  if (context.deterministic) {
    launch_blocks<kHeadDim, true, kIsPart>(gradient, arguments, context);
  } else {
    launch_blocks<kHeadDim, false, kIsPart>(gradient, arguments, context);
  }
  constexpr int kHeadsOfBlock = kIsPart ? 1 : GradientRows<kHeadDim>::kHeads;
  launch_kernel({.kernel = finish_rows_kernel<kHeadDim, kIsPart>,
                 .blocks_x = tiles,
                 .blocks_y = static_cast<unsigned>(ceil_div(arguments.num_on(), kHeadsOfBlock)),
                 .threads = kGradientRowThreads,
                 .name = kOp},
                arguments, context, buffers, arguments.num_on());
}

template <int kHeadDim>
void launch_form(const AttentionArguments& arguments, void* scratch, const DeviceContext& context) {
  if (arguments.is_part()) return launch<kHeadDim, true>(arguments, scratch, context);
  launch<kHeadDim, false>(arguments, scratch, context);
}

}  // namespace

bool attention_has_hopper_backward(int head_dim, DType dtype, const DeviceContext& context) {
  return context.compute_capability == 90 && dtype == DType::kBF16 &&
         (head_dim == 64 || head_dim == 96 || head_dim == 128);
}

void launch_attention_backward_hopper(const AttentionArguments& arguments, void* scratch,
                                      const DeviceContext& context) {
  switch (arguments.head_dim) {
    case 64: return launch_form<64>(arguments, scratch, context);
    case 96: return launch_form<96>(arguments, scratch, context);
    case 128: return launch_form<128>(arguments, scratch, context);
    default: throw InternalError(kOp, "no Hopper kernel for heads of this size", arguments.head_dim, "64, 96, 128");
  }
}

}  // namespace litespark::cuda
