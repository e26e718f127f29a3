// SPDX-License-Identifier: Apache-2.0
// Columns of a matrix as a matrix of their own, and two matrices beside each other.
#include <cstddef>

#include "ops/cuda/check.h"
#include "ops/cuda/cuda_backend_impl.h"
#include "ops/cuda/device/vector.cuh"
#include "ops/cuda/launch.h"

namespace litespark::cuda {
namespace {

constexpr int kColumnThreads = 256;

/// Row-major, of f32.
struct Columns {
  const float* data = nullptr;
  int64_t width = 0;
};

// Threads take kWidth neighbouring elements of `out` one after another: 6 bytes of traffic an element in bf16.
template <class Out, int kWidth>
__global__ void __launch_bounds__(kColumnThreads)
    join_columns_kernel(Out* out, const Columns left, const Columns right, int64_t rows) {
  const int64_t width = left.width + right.width;
  const int64_t at = (static_cast<int64_t>(blockIdx.x) * kColumnThreads + threadIdx.x) * kWidth;
  if (at >= rows * width) return;
  const int64_t row = at / width;
  const int64_t column = at % width;
  const float* const from = column < left.width ? left.data + row * left.width + column
                                                : right.data + row * right.width + column - left.width;
  float values[kWidth];
  load_floats(from, values);
  store_floats(out + at, values);
}

}  // namespace

void CudaBackend::run(const op::TakeColumns<Tensor>& op) {
  if (op.out.num_elements() == 0) return;
  const auto element = static_cast<size_t>(dtype_bytes(op.x.dtype));
  const auto width = static_cast<size_t>(op.out.columns()) * element;
  const auto* const from = static_cast<const std::byte*>(op.x.data) + static_cast<size_t>(op.first_column) * element;
  check(cudaMemcpy2DAsync(op.out.data, width, from, static_cast<size_t>(op.x.columns()) * element, width,
                          static_cast<size_t>(op.x.rows()), cudaMemcpyDeviceToDevice, context_.stream),
        op.kName);
}

void CudaBackend::run(const op::JoinColumns<Tensor>& op) {
  const int64_t size = op.out.num_elements();
  if (size == 0) return;
  const Columns left{.data = op.left.as<const float>(), .width = op.left.columns()};
  const Columns right{.data = op.right.as<const float>(), .width = op.right.columns()};
  const bool is_wide = left.width % kVectorWidth == 0 && right.width % kVectorWidth == 0;
  const unsigned grid = grid_size(op.kName, ceil_div(size, int64_t{kColumnThreads} * (is_wide ? kVectorWidth : 1)));
  visit_float_dtype(op.kName, op.out.dtype, [&](auto tag) {
    using Out = typename decltype(tag)::type;
    const auto kernel = is_wide ? join_columns_kernel<Out, kVectorWidth> : join_columns_kernel<Out, 1>;
    kernel<<<grid, kColumnThreads, 0, context_.stream>>>(op.out.as<Out>(), left, right, op.left.rows());
  });
  check_launch(op.kName);
}

}  // namespace litespark::cuda
