// SPDX-License-Identifier: Apache-2.0
// Attention forward for Hopper: the launch. The kernel is in device/attention_forward_sm90.cuh.
#include <algorithm>

#include "ops/cuda/attention_portable.h"
#include "ops/cuda/device/attention_forward_sm90.cuh"
#include "ops/cuda/device/attention_launch.cuh"

namespace litespark::cuda {
namespace {

template <int kHeadDim, bool kIsPart>
__global__ __launch_bounds__(ForwardShape<kHeadDim, kIsPart>::kThreads,
                             1) void attention_forward_sm90_kernel(const AttentionArguments arguments,
                                                                   const __grid_constant__ CUtensorMap queries,
                                                                   const __grid_constant__ CUtensorMap keys,
                                                                   const __grid_constant__ ForwardGrid grid) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL  // other architectures of a build get an empty kernel, which is never launched
  attention_forward_block<kHeadDim, kIsPart>(arguments, grid, {.queries = queries, .keys = keys});
#endif
}

/// A block a multiprocessor, each of which takes one slot after another.
template <int kHeadDim, bool kIsPart>
ForwardGrid forward_grid(const AttentionArguments& arguments, const DeviceContext& context) {
  ForwardGrid grid{.tiles = static_cast<int>(tile_blocks<ForwardShape<kHeadDim, kIsPart>::kQueries>(arguments)),
                   .heads = arguments.num_on(),
                   .halves = kIsPart ? kChunksOfRank : 1};
  grid.blocks = std::min(grid.slots(), context.num_multiprocessors);
  return grid;
}

template <int kHeadDim, bool kIsPart>
void launch(const AttentionArguments& arguments, const DeviceContext& context) {
  using Shape = ForwardShape<kHeadDim, kIsPart>;
  MatrixMapRequest request{.data = arguments.qkv,
                           .rows = arguments.num_tokens,
                           .columns = int64_t{arguments.num_heads + 2 * arguments.num_kv_heads} * kHeadDim,
                           .box_rows = Shape::kQueries};
  const CUtensorMap queries = make_matrix_map(request);
  if (kIsPart) {
    request.data = arguments.keys_values;
    request.columns = int64_t{2} * arguments.num_kv_heads * kHeadDim;
  }
  request.box_rows = kForwardKeys;
  const CUtensorMap keys = make_matrix_map(request);
  const ForwardGrid grid = forward_grid<kHeadDim, kIsPart>(arguments, context);
  launch_kernel({.kernel = attention_forward_sm90_kernel<kHeadDim, kIsPart>,
                 .blocks_x = static_cast<unsigned>(grid.blocks),
                 .threads = Shape::kThreads,
                 .shared_bytes = aligned_shared_bytes<ForwardShared<kHeadDim, kIsPart>>(),
                 .name = "attention_forward"},
                arguments, context, queries, keys, grid);
}

template <int kHeadDim>
void launch_form(const AttentionArguments& arguments, const DeviceContext& context) {
  if (arguments.is_part()) return launch<kHeadDim, true>(arguments, context);
  launch<kHeadDim, false>(arguments, context);
}

}  // namespace

bool attention_has_hopper_forward(int head_dim, DType dtype, const DeviceContext& context) {
  return context.compute_capability == 90 && dtype == DType::kBF16 && (head_dim == 64 || head_dim == 128);
}

void launch_attention_forward_hopper(const AttentionArguments& arguments, const DeviceContext& context) {
  if (arguments.head_dim == 64) {
    launch_form<64>(arguments, context);
  } else {
    launch_form<128>(arguments, context);
  }
}

}  // namespace litespark::cuda
