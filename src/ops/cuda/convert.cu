// SPDX-License-Identifier: Apache-2.0
// Dtype conversion of flat tensors; equal dtypes are a plain device copy. And the sum of two of them.
#include "ops/cuda/check.h"
#include "ops/cuda/cuda_backend_impl.h"
#include "ops/cuda/device/vector.cuh"
#include "ops/cuda/launch.h"

namespace litespark::cuda {
namespace {

inline constexpr int kConvertThreads = 256;

template <class Out, class In>
__global__ void __launch_bounds__(kConvertThreads) convert_kernel(Out* out, const In* x, int64_t size);

template <class In>
__global__ void __launch_bounds__(kConvertThreads) add_kernel(float* sum, const In* x, int64_t size);

}  // namespace

void CudaBackend::run(const op::Convert<Tensor>& op) {
  const int64_t size = op.x.num_elements();
  if (size == 0) return;
  const unsigned grid = grid_size(op.kName, ceil_div(size, kConvertThreads * kVectorWidth));
  if (op.x.dtype == op.out.dtype) {
    check(cudaMemcpyAsync(op.out.data, op.x.data, static_cast<size_t>(op.x.bytes()), cudaMemcpyDeviceToDevice,
                          context_.stream),
          op.kName);
  } else if (op.x.dtype == DType::kF32 && op.out.dtype == DType::kBF16) {
    convert_kernel<<<grid, kConvertThreads, 0, context_.stream>>>(op.out.as<bf16>(), op.x.as<const float>(), size);
  } else if (op.x.dtype == DType::kBF16 && op.out.dtype == DType::kF32) {
    convert_kernel<<<grid, kConvertThreads, 0, context_.stream>>>(op.out.as<float>(), op.x.as<const bf16>(), size);
  } else {
    throw InternalError(op.kName, "conversion not supported", dtype_name(op.out.dtype), "f32 or bf16");
  }
  check_launch(op.kName);
}

void CudaBackend::run(const op::Add<Tensor>& op) {
  const int64_t size = op.x.num_elements();
  if (size == 0) return;
  const unsigned grid = grid_size(op.kName, ceil_div(size, kConvertThreads * kVectorWidth));
  visit_float_dtype(op.kName, op.x.dtype, [&](auto tag) {
    using In = typename decltype(tag)::type;
    add_kernel<<<grid, kConvertThreads, 0, context_.stream>>>(op.sum.as<float>(), op.x.as<const In>(), size);
  });
  check_launch(op.kName);
}

namespace {

// Eight elements a thread; 12 bytes of traffic an element in f32.
template <class In>
__global__ void __launch_bounds__(kConvertThreads) add_kernel(float* sum, const In* x, int64_t size) {
  const int64_t at = (static_cast<int64_t>(blockIdx.x) * kConvertThreads + threadIdx.x) * kVectorWidth;
  if (at + kVectorWidth <= size) {
    float values[kVectorWidth];
    float added[kVectorWidth];
    load_floats(sum + at, values);
    load_floats(x + at, added);
#pragma unroll
    for (int i = 0; i < kVectorWidth; ++i) values[i] += added[i];
    store_floats(sum + at, values);
    return;
  }
  for (int64_t i = at; i < size; ++i) sum[i] += as_float(x[i]);
}

// Eight elements a thread; 6 bytes of traffic an element.
template <class Out, class In>
__global__ void __launch_bounds__(kConvertThreads) convert_kernel(Out* out, const In* x, int64_t size) {
  const int64_t at = (static_cast<int64_t>(blockIdx.x) * kConvertThreads + threadIdx.x) * kVectorWidth;
  if (at + kVectorWidth <= size) {
    float values[kVectorWidth];
    load_floats(x + at, values);
    store_floats(out + at, values);
    return;
  }
  for (int64_t i = at; i < size; ++i) out[i] = from_float<Out>(as_float(x[i]));
}

}  // namespace
}  // namespace litespark::cuda
