// SPDX-License-Identifier: Apache-2.0
// SwiGLU and its gradient, one pass over [N, 2 F].
#include <cmath>

#include "ops/cpu/cpu_backend_impl.h"
#include "ops/cpu/parallel.h"

namespace litespark::cpu {
namespace {

constexpr int64_t kRowsPerBlock = 16;

float sigmoid(float x) {
  return 1.0f / (1.0f + std::exp(-x));
}

}  // namespace

void CpuBackend::run(const op::SwiGluForward<Tensor>& op) {
  const int64_t width = op.h.columns();
  visit_float_dtype(op.kName, op.h.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    parallel_ranges(threads_, op.h.rows(), kRowsPerBlock, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const T* gate = op.gate_up.as<T>() + row * 2 * width;
        const T* up = gate + width;
        T* h = op.h.as<T>() + row * width;
        for (int64_t f = 0; f < width; ++f) {
          const float g = load_float(gate[f]);
          store_float(h[f], g * sigmoid(g) * load_float(up[f]));
        }
      }
    });
  });
}

void CpuBackend::run(const op::SwiGluBackward<Tensor>& op) {
  const int64_t width = op.dh.columns();
  visit_float_dtype(op.kName, op.dh.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    parallel_ranges(threads_, op.dh.rows(), kRowsPerBlock, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const T* gate_up = op.gate_up.as<T>() + row * 2 * width;
        const T* dh = op.dh.as<T>() + row * width;
        T* dgate_up = op.dgate_up.as<T>() + row * 2 * width;
        for (int64_t f = 0; f < width; ++f) {
          const float g = load_float(gate_up[f]);
          const float u = load_float(gate_up[width + f]);
          const float d = load_float(dh[f]);
          const float s = sigmoid(g);
          store_float(dgate_up[f], d * u * s * (1.0f + g * (1.0f - s)));
          store_float(dgate_up[width + f], d * g * s);
        }
      }
    });
  });
}

}  // namespace litespark::cpu
