// SPDX-License-Identifier: Apache-2.0
// Attention forward for Hopper: the launch. The kernel is in device/attention_forward_sm90.cuh.
#include <algorithm>

#include "ops/cuda/attention_fp8.h"
#include "ops/cuda/device/attention_forward_sm90.cuh"
#include "ops/cuda/device/attention_launch.cuh"

namespace litespark::cuda {
namespace {

template <int kHeadDim, ForwardForm kForm>
__global__ __launch_bounds__(ForwardShape<kHeadDim, kForm>::kThreads,
                             1) void attention_forward_sm90_kernel(const AttentionArguments arguments,
                                                                   const __grid_constant__ CUtensorMap queries,
                                                                   const __grid_constant__ CUtensorMap keys,
                                                                   const __grid_constant__ ForwardGrid grid) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL  // other architectures of a build get an empty kernel, which is never launched
  attention_forward_block<kHeadDim, kForm>(arguments, grid, {.queries = queries, .keys = keys, .values = keys});
#endif
}

template <int kHeadDim>
__global__ __launch_bounds__(ForwardShape<kHeadDim, ForwardForm::kFp8>::kThreads,
                             1) void attention_forward_fp8_sm90_kernel(const AttentionArguments arguments,
                                                                       const __grid_constant__ CUtensorMap queries_keys,
                                                                       const __grid_constant__ CUtensorMap values,
                                                                       const __grid_constant__ ForwardGrid grid,
                                                                       const float* scale) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  attention_forward_block<kHeadDim, ForwardForm::kFp8>(
      arguments, grid, {.queries = queries_keys, .keys = queries_keys, .values = values, .scale = scale});
#endif
}

/// A block a multiprocessor, each of which takes one slot after another.
template <int kHeadDim, ForwardForm kForm>
ForwardGrid forward_grid(const AttentionArguments& arguments, const DeviceContext& context) {
  using Shape = ForwardShape<kHeadDim, kForm>;
  ForwardGrid grid{.tiles = static_cast<int>(tile_blocks<Shape::kQueries>(arguments)),
                   .heads = arguments.num_on(),
                   .halves = Shape::kIsPart ? kChunksOfRank : 1};
  grid.blocks = std::min(grid.slots(), context.num_multiprocessors);
  return grid;
}

template <int kHeadDim, ForwardForm kForm>
void launch(const AttentionArguments& arguments, const DeviceContext& context) {
  using Shape = ForwardShape<kHeadDim, kForm>;
  MatrixMapRequest request{.data = arguments.qkv,
                           .rows = arguments.num_tokens,
                           .columns = int64_t{arguments.num_heads + 2 * arguments.num_kv_heads} * kHeadDim,
                           .box_rows = Shape::kQueryRows,
                           .box_row_bytes = Shape::kRowBytes};
  const CUtensorMap queries = make_matrix_map(request);
  if (Shape::kIsPart) {
    request.data = arguments.keys_values;
    request.columns = int64_t{2} * arguments.num_kv_heads * kHeadDim;
  }
  request.box_rows = Shape::kKeys;
  const CUtensorMap keys = make_matrix_map(request);
  const ForwardGrid grid = forward_grid<kHeadDim, kForm>(arguments, context);
  launch_kernel({.kernel = attention_forward_sm90_kernel<kHeadDim, kForm>,
                 .blocks_x = static_cast<unsigned>(grid.blocks),
                 .threads = Shape::kThreads,
                 .shared_bytes = aligned_shared_bytes<ForwardShared<kHeadDim, kForm>>(),
                 .name = "attention_forward"},
                arguments, context, queries, keys, grid);
}

template <int kHeadDim>
void launch_form(const AttentionArguments& arguments, const DeviceContext& context) {
  if (arguments.is_part()) return launch<kHeadDim, ForwardForm::kPart>(arguments, context);
  if (arguments.angles.table != nullptr) {
    if constexpr (hopper_forward_rotates(kHeadDim)) return launch<kHeadDim, ForwardForm::kRotated>(arguments, context);
    throw InternalError("attention", "no Hopper forward rotates heads of this size", kHeadDim, "64 or 128");
  }
  launch<kHeadDim, ForwardForm::kWhole>(arguments, context);
}

template <int kHeadDim>
void launch_fp8(const AttentionArguments& arguments, const Fp8Operands& operands, const DeviceContext& context) {
  using Shape = ForwardShape<kHeadDim, ForwardForm::kFp8>;
  static_assert(Shape::kQueries == Shape::kKeys, "one box serves queries and keys");
  const CUtensorMap queries_keys =
      make_matrix_map({.data = operands.queries_keys,
                       .rows = arguments.num_tokens,
                       .columns = int64_t{arguments.num_heads + arguments.num_kv_heads} * kHeadDim,
                       .box_rows = Shape::kKeys,
                       .dtype = DType::kE4M3});
  const CUtensorMap values = make_matrix_map({.data = operands.values,
                                              .rows = int64_t{arguments.num_kv_heads} * kHeadDim,
                                              .columns = op::fp8_value_columns(arguments.num_tokens),
                                              .box_rows = kHeadDim,
                                              .dtype = DType::kE4M3});
  const ForwardGrid grid = forward_grid<kHeadDim, ForwardForm::kFp8>(arguments, context);
  launch_kernel({.kernel = attention_forward_fp8_sm90_kernel<kHeadDim>,
                 .blocks_x = static_cast<unsigned>(grid.blocks),
                 .threads = Shape::kThreads,
                 .shared_bytes = aligned_shared_bytes<ForwardShared<kHeadDim, ForwardForm::kFp8>>(),
                 .name = "attention_forward_fp8"},
                arguments, context, queries_keys, values, grid, operands.scale);
}

}  // namespace

bool attention_has_hopper_forward(int head_dim, DType dtype, const DeviceContext& context) {
  return context.compute_capability == 90 && dtype == DType::kBF16 &&
         (head_dim == 64 || head_dim == 96 || head_dim == 128 || head_dim == 256);
}

void launch_attention_forward_hopper(const AttentionArguments& arguments, const DeviceContext& context) {
  switch (arguments.head_dim) {
    case 64: return launch_form<64>(arguments, context);
    case 96: return launch_form<96>(arguments, context);
    case 128: return launch_form<128>(arguments, context);
    case 256: return launch_form<256>(arguments, context);
    default:
      throw InternalError("attention", "no Hopper forward for heads of this size", arguments.head_dim,
                          "64, 96, 128 or 256");
  }
}

void launch_attention_forward_fp8(const AttentionArguments& arguments, const Fp8Operands& operands,
                                  const DeviceContext& context) {
  launch_fp8<128>(arguments, operands, context);
}

}  // namespace litespark::cuda
