// SPDX-License-Identifier: Apache-2.0
// Launches the products with SwiGLU inside: as many clusters as the part holds at once, each walking over tiles.
#include "core/backend_sizes.h"
#include "ops/cuda/check.h"
#include "ops/cuda/device/gated_product.cuh"
#include "ops/cuda/device_context.h"
#include "ops/cuda/gated_product.h"
#include "ops/cuda/tensor_map.h"

namespace litespark::cuda {
namespace {

template <GatedPass kPass>
__global__ __cluster_dims__(kGatedCluster, 1, 1)
    __launch_bounds__(kHopperThreads, 1) void gated_product_sm90_kernel(GatedArguments arguments,
                                                                        const __grid_constant__ CUtensorMap tokens,
                                                                        const __grid_constant__ CUtensorMap weights) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL  // other architectures of a build get an empty kernel, which is never launched
  extern __shared__ __align__(16) unsigned char raw[];
  gated_product_block<kPass>(align_shared<GatedShared>(raw), arguments, {.tokens = tokens, .weights = weights});
#endif
}

template <GatedPass kPass>
void launch(std::string_view name, const GatedArguments& arguments, const CUtensorMap& tokens,
            const CUtensorMap& weights, const DeviceContext& context) {
  if (arguments.grid.num_tiles() == 0) return;
  constexpr int kBytes = aligned_shared_bytes<GatedShared>();
  static_assert(kBytes <= 232448);
  const auto kernel = gated_product_sm90_kernel<kPass>;
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes), name);
  const int clusters = std::min(arguments.grid.num_tiles(), context.num_multiprocessors / kGatedCluster);
  kernel<<<static_cast<unsigned>(clusters * kGatedCluster), kHopperThreads, kBytes, context.stream>>>(arguments, tokens,
                                                                                                      weights);
  check_launch(name);
}

GatedGrid grid_of(const Tensor& tokens, int64_t columns, int tile_columns) {
  return {.rows = tokens.rows(), .column_tiles = static_cast<int>((columns + tile_columns - 1) / tile_columns)};
}

CUtensorMap map_of(const Tensor& matrix, int box_rows) {
  return make_matrix_map(
      {.data = matrix.data, .rows = matrix.rows(), .columns = matrix.columns(), .box_rows = box_rows});
}

}  // namespace

bool has_gated_product(DType dtype, int64_t depth, int64_t columns, const DeviceContext& context) {
  return context.compute_capability == 90 && gpu_joins_swiglu(dtype, depth, columns);
}

void launch_gated_forward(const op::GatedForward<Tensor>& op, const DeviceContext& context) {
  const int64_t columns = op.h.columns();
  const GatedArguments arguments{.gate_up = op.gate_up.as<bf16>(),
                                 .h = op.h.as<bf16>(),
                                 .grid = grid_of(op.x, columns, GatedArguments::columns_of_tile<GatedPass::kForward>()),
                                 .depth = static_cast<int>(op.x.columns()),
                                 .columns = static_cast<int>(columns)};
  launch<GatedPass::kForward>(op.kName, arguments, map_of(op.x, kGatedRows), map_of(op.weight, kGatedHalf), context);
}

void launch_gated_backward(const op::GatedBackward<Tensor>& op, const DeviceContext& context) {
  const int64_t columns = op.weight.columns();
  const GatedArguments arguments{
      .gate_up = op.gate_up.as<bf16>(),
      .gate_up_gradient = op.dgate_up.as<bf16>(),
      .grid = grid_of(op.dout, columns, GatedArguments::columns_of_tile<GatedPass::kBackward>()),
      .depth = static_cast<int>(op.dout.columns()),
      .columns = static_cast<int>(columns)};
  launch<GatedPass::kBackward>(op.kName, arguments, map_of(op.dout, kGatedRows), map_of(op.weight, kGatedDepth),
                               context);
}

}  // namespace litespark::cuda
