// SPDX-License-Identifier: Apache-2.0
#include <cuda_bf16.h>

#include <algorithm>

#include "core/error.h"
#include "dist/nccl/nccl_kernels.h"
#include "dist/nccl/nccl_library.h"

namespace litespark::dist {
namespace {

constexpr int kThreads = 256;
/// Few blocks: the ops beside it want the rest of the device, and memory speed needs no more.
constexpr int64_t kMostBlocks = 264;

__device__ float widened(float value) {
  return value;
}
__device__ float widened(__nv_bfloat16 value) {
  return __bfloat162float(value);
}
__device__ double widened(double value) {
  return value;
}
__device__ void narrow(float& out, float value) {
  out = value;
}
__device__ void narrow(__nv_bfloat16& out, float value) {
  out = __float2bfloat16_rn(value);
}
__device__ void narrow(double& out, double value) {
  out = value;
}

// One thread an element and turn, inputs in rank order, so that the sum is the host's bit for bit. Reads size values
// and writes one: bound by memory, neighbouring threads on neighbouring elements. The sum is made of plain additions
// (nothing to contract into a fused one).
template <class T, bool kIsSum>
__global__ void reduce_in_order_kernel(T* out, RankPieces pieces) {
  const auto* others = reinterpret_cast<const T*>(pieces.others);
  const auto* own = static_cast<const T*>(pieces.own);
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < pieces.num_elements; i += stride) {
    auto result = widened(pieces.rank == 0 ? own[i] : others[i]);
    for (int rank = 1; rank < pieces.size; ++rank) {
      const int64_t row = rank < pieces.rank ? rank : rank - 1;
      const auto value = widened(rank == pieces.rank ? own[i] : others[row * pieces.num_elements + i]);
      if constexpr (kIsSum) {
        result += value;
      } else {
        result = result >= value || result != result ? result : value;
      }
    }
    narrow(out[i], result);
  }
}

template <class T>
void launch(void* out, const RankPieces& pieces, Reduction reduction, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(std::min((pieces.num_elements + kThreads - 1) / kThreads, kMostBlocks));
  if (reduction == Reduction::kSum) {
    reduce_in_order_kernel<T, true><<<blocks, kThreads, 0, stream>>>(static_cast<T*>(out), pieces);
  } else {
    reduce_in_order_kernel<T, false><<<blocks, kThreads, 0, stream>>>(static_cast<T*>(out), pieces);
  }
  check(cudaGetLastError(), "reduce_in_order_kernel");
}

__global__ void mark_kernel(volatile uint64_t* word, uint64_t value) {
  *word = value;
  __threadfence_system();
}

}  // namespace

void launch_reduce_in_order(void* out, const RankPieces& pieces, DType dtype, Reduction reduction,
                            cudaStream_t stream) {
  if (pieces.num_elements == 0) return;
  switch (dtype) {
    case DType::kF32: return launch<float>(out, pieces, reduction, stream);
    case DType::kBF16: return launch<__nv_bfloat16>(out, pieces, reduction, stream);
    case DType::kF64: return launch<double>(out, pieces, reduction, stream);
    default: throw InternalError("nccl", "dtype cannot be reduced", dtype_name(dtype), "f32, bf16 or f64");
  }
}

void launch_mark(uint64_t* word, uint64_t value, cudaStream_t stream) {
  mark_kernel<<<1, 1, 0, stream>>>(word, value);
  check(cudaGetLastError(), "mark_kernel");
}

}  // namespace litespark::dist
