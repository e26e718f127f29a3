// SPDX-License-Identifier: Apache-2.0
// SwiGLU, both ways: one block takes a stretch of one row.
#include "ops/cuda/check.h"
#include "ops/cuda/cuda_backend_impl.h"
#include "ops/cuda/device/abs_max.cuh"
#include "ops/cuda/device/swiglu.cuh"
#include "ops/cuda/device/vector.cuh"
#include "ops/cuda/heuristics/rows.h"
#include "ops/cuda/launch.h"

namespace litespark::cuda {
namespace {

template <class T>
struct SwiGluArgs {
  T* out;  // h forward, dgate_up backward
  const T* gate_up;
  const T* dh;     // backward only
  float* abs_max;  // raised to the largest magnitude of `out`; may be nullptr
  int columns;     // F
  int chunks;      // blocks a row
};

template <class T, int kWidth>
__global__ void __launch_bounds__(kChunkThreads) swiglu_forward_kernel(SwiGluArgs<T> args);
template <class T, int kWidth>
__global__ void __launch_bounds__(kChunkThreads) swiglu_backward_kernel(SwiGluArgs<T> args);

/// Blocks for every chunk of every row of `h`, each thread with whole vectors where a row is made of them.
template <class T, class Kernel>
void launch_chunks(std::string_view op, const Tensor& h, SwiGluArgs<T> args, Kernel wide, Kernel narrow,
                   cudaStream_t stream) {
  if (h.num_elements() == 0) return;
  const RowChunks shape = row_chunks(h.columns());
  args.columns = static_cast<int>(h.columns());
  args.chunks = shape.chunks;
  const Kernel kernel = shape.width == kVectorWidth ? wide : narrow;
  kernel<<<grid_size(op, h.rows() * shape.chunks), shape.threads, 0, stream>>>(args);
  check_launch(op);
}

}  // namespace

void CudaBackend::run(const op::SwiGluForward<Tensor>& op) {
  visit_float_dtype(op.kName, op.h.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const SwiGluArgs<T> args{.out = op.h.as<T>(),
                             .gate_up = op.gate_up.as<T>(),
                             .dh = nullptr,
                             .abs_max = pointer_or_null<float>(op.abs_max),
                             .columns = 0,
                             .chunks = 0};
    launch_chunks(op.kName, op.h, args, swiglu_forward_kernel<T, kVectorWidth>, swiglu_forward_kernel<T, 1>,
                  context_.stream);
  });
}

void CudaBackend::run(const op::SwiGluBackward<Tensor>& op) {
  visit_float_dtype(op.kName, op.dh.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const SwiGluArgs<T> args{.out = op.dgate_up.as<T>(),
                             .gate_up = op.gate_up.as<T>(),
                             .dh = op.dh.as<T>(),
                             .abs_max = pointer_or_null<float>(op.abs_max),
                             .columns = 0,
                             .chunks = 0};
    launch_chunks(op.kName, op.dh, args, swiglu_backward_kernel<T, kVectorWidth>, swiglu_backward_kernel<T, 1>,
                  context_.stream);
  });
}

namespace {

// Traffic an element of h: gate, up read, h written: 6 bytes in bf16. A thread has kChunkVectors vectors of each input
// under way before it uses the first.
template <class T, int kWidth>
__global__ void __launch_bounds__(kChunkThreads) swiglu_forward_kernel(SwiGluArgs<T> args) {
  const int64_t row = blockIdx.x / static_cast<unsigned>(args.chunks);
  const int chunk = static_cast<int>(blockIdx.x % static_cast<unsigned>(args.chunks));
  const T* gate = args.gate_up + row * 2 * args.columns;
  const T* up = gate + args.columns;
  T* h = args.out + row * args.columns;
  Pack<T, kWidth> gates[kChunkVectors];
  Pack<T, kWidth> ups[kChunkVectors];
  const int first = (chunk * kChunkVectors * static_cast<int>(blockDim.x) + static_cast<int>(threadIdx.x)) * kWidth;
  const int stride = static_cast<int>(blockDim.x) * kWidth;
#pragma unroll
  for (int v = 0; v < kChunkVectors; ++v) {
    const int column = first + v * stride;
    if (column >= args.columns) break;
    gates[v] = load_pack<kWidth>(gate + column);
    ups[v] = load_pack<kWidth>(up + column);
  }
  float largest = 0;
#pragma unroll
  for (int v = 0; v < kChunkVectors; ++v) {
    const int column = first + v * stride;
    if (column >= args.columns) break;
    float values[kWidth];
#pragma unroll
    for (int i = 0; i < kWidth; ++i) values[i] = swiglu<T>(gates[v][i], ups[v][i]);
    largest = larger_magnitude(largest, values);
    store_floats(h + column, values);
  }
  raise_abs_max_of<T>(args.abs_max, largest);
}

// Traffic an element of h: dh, gate, up read, dgate, dup written: 10 bytes in bf16. The result may lie over gate_up: a
// thread has read its elements of all three inputs before it writes.
template <class T, int kWidth>
__global__ void __launch_bounds__(kChunkThreads) swiglu_backward_kernel(SwiGluArgs<T> args) {
  const int64_t row = blockIdx.x / static_cast<unsigned>(args.chunks);
  const int chunk = static_cast<int>(blockIdx.x % static_cast<unsigned>(args.chunks));
  const T* gate = args.gate_up + row * 2 * args.columns;
  const T* up = gate + args.columns;
  const T* dh = args.dh + row * args.columns;
  T* dgate = args.out + row * 2 * args.columns;
  T* dup = dgate + args.columns;
  Pack<T, kWidth> gates[kChunkVectors];
  Pack<T, kWidth> ups[kChunkVectors];
  Pack<T, kWidth> dhs[kChunkVectors];
  const int first = (chunk * kChunkVectors * static_cast<int>(blockDim.x) + static_cast<int>(threadIdx.x)) * kWidth;
  const int stride = static_cast<int>(blockDim.x) * kWidth;
#pragma unroll
  for (int v = 0; v < kChunkVectors; ++v) {
    const int column = first + v * stride;
    if (column >= args.columns) break;
    gates[v] = load_pack<kWidth>(gate + column);
    ups[v] = load_pack<kWidth>(up + column);
    dhs[v] = load_pack<kWidth>(dh + column);
  }
  float largest = 0;
#pragma unroll
  for (int v = 0; v < kChunkVectors; ++v) {
    const int column = first + v * stride;
    if (column >= args.columns) break;
    float dgates[kWidth];
    float dups[kWidth];
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      const SwiGluGradient gradient = swiglu_gradient<T>(gates[v][i], ups[v][i], dhs[v][i]);
      dgates[i] = gradient.gate;
      dups[i] = gradient.up;
    }
    store_floats(dgate + column, dgates);
    store_floats(dup + column, dups);
    largest = larger_magnitude(larger_magnitude(largest, dgates), dups);
  }
  raise_abs_max_of<T>(args.abs_max, largest);
}

}  // namespace
}  // namespace litespark::cuda
