// SPDX-License-Identifier: Apache-2.0
// Attention's forward on 8-bit floats: the launches. The copies' kernel is in device/quantize_qkv.cuh.
#include "ops/cuda/attention_fp8.h"
#include "ops/cuda/check.h"
#include "ops/cuda/cuda_backend_impl.h"
#include "ops/cuda/device/quantize_qkv.cuh"
#include "ops/cuda/launch.h"

namespace litespark::cuda {
namespace {

/// Blocks that a multiprocessor is to hold, as for QuantizeFp8.
template <class T>
inline constexpr int kBlocksAtOnce = sizeof(T) == 2 ? 4 : 2;

template <class T>
__global__ void __launch_bounds__(kFp8TileThreads, kBlocksAtOnce<T>) quantize_qkv_kernel(QuantizeQkvArgs<T> args) {
  __shared__ QuantizeQkvShared shared;
  quantize_qkv_tile(args, shared);
}

}  // namespace

void CudaBackend::run(const op::QuantizeQkv<Tensor>& op) {
  if (op.qkv.num_elements() == 0) return;
  if (op.head_dim % 16 != 0) throw InternalError(op.kName, "heads of an odd size", op.head_dim, "a multiple of 16");
  visit_float_dtype(op.kName, op.qkv.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const QuantizeQkvArgs<T> args{.qkv = op.qkv.as<T>(),
                                  .queries_keys = op.queries_keys.as<uint8_t>(),
                                  .values = op.values.as<uint8_t>(),
                                  .abs_max = op.abs_max.as<float>(),
                                  .scale = op.scale.as<float>(),
                                  .counters = fp8_counters(op.state, op::Fp8Kind::kInput),
                                  .rows = op.qkv.rows(),
                                  .columns = op.qkv.columns(),
                                  .row_features = op.queries_keys.columns(),
                                  .value_columns = op.values.columns()};
    const unsigned grid = grid_size(op.kName, fp8_tiles(args.rows, args.columns));
    quantize_qkv_kernel<T><<<grid, kFp8TileThreads, 0, context_.stream>>>(args);
  });
  check_launch(op.kName);
}

}  // namespace litespark::cuda
