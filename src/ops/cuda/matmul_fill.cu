// SPDX-License-Identifier: Apache-2.0
// Two small helpers of the matmul library: random operands for timing, and a bias rounded to bf16.
#include <cuda_fp8.h>

#include "core/checked.h"
#include "core/fp8.h"
#include "ops/cuda/check.h"
#include "ops/cuda/device/vector.cuh"
#include "ops/cuda/matmul_plan.h"

namespace litespark::cuda {
namespace {

constexpr int kThreads = 256;

/// A multiply-xor hash: enough disorder to toggle bits like real data, and the same on every machine.
__device__ float hashed_unit(uint64_t index, uint32_t seed) {
  uint64_t bits = (index + 1) * 0x9e3779b97f4a7c15ull + seed * 0xbf58476d1ce4e5b9ull;
  bits = (bits ^ (bits >> 31)) * 0x94d049bb133111ebull;
  return static_cast<float>(static_cast<int32_t>(bits >> 32)) * (1.0f / 2147483648.0f);
}

template <class T>
__global__ void fill_random_kernel(T* data, int64_t count, uint32_t seed) {
  const int64_t stride = int64_t{gridDim.x} * kThreads;
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < count; i += stride) {
    data[i] = from_float<T>(hashed_unit(static_cast<uint64_t>(i), seed));
  }
}

/// Codes of a bell-shaped spread of magnitudes as quantised tensors have them, never NaN.
__global__ void fill_random_fp8_kernel(uint8_t* data, __nv_fp8_interpretation_t format, int64_t count, uint32_t seed) {
  const int64_t stride = int64_t{gridDim.x} * kThreads;
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < count; i += stride) {
    float sum = 0;
    for (uint32_t part = 0; part < 4; ++part) sum += hashed_unit(static_cast<uint64_t>(i), 8 * seed + part);
    data[i] = __nv_cvt_float_to_fp8(64.0f * sum, __NV_SATFINITE, format);
  }
}

__global__ void round_to_bf16_kernel(bf16* out, const float* in, int64_t count) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i < count) out[i] = from_float<bf16>(in[i]);
}

}  // namespace

void fill_random(void* data, DType dtype, int64_t count, uint32_t seed, cudaStream_t stream) {
  if (count == 0) return;
  const auto blocks = static_cast<unsigned>(std::min<int64_t>(ceil_div(count, kThreads), 4096));
  if (is_fp8(dtype)) {
    const auto format = dtype == DType::kE5M2 ? __NV_E5M2 : __NV_E4M3;
    fill_random_fp8_kernel<<<blocks, kThreads, 0, stream>>>(static_cast<uint8_t*>(data), format, count, seed);
    check_launch("matmul timing");
    return;
  }
  visit_float_dtype("matmul timing", dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    fill_random_kernel<T><<<blocks, kThreads, 0, stream>>>(static_cast<T*>(data), count, seed);
  });
  check_launch("matmul timing");
}

void round_to_bf16(void* out, const float* in, int64_t count, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(ceil_div(count, kThreads));
  round_to_bf16_kernel<<<blocks, kThreads, 0, stream>>>(static_cast<bf16*>(out), in, count);
  check_launch("matmul bias");
}

}  // namespace litespark::cuda
