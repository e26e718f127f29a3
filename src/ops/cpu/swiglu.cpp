// SPDX-License-Identifier: Apache-2.0
// SwiGLU and its gradient, one pass over [N, 2 F].
#include "ops/cpu/abs_max.h"
#include "ops/cpu/cpu_backend_impl.h"
#include "ops/cpu/kernel_table.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/rows.h"
#include "ops/gated_parts.h"

namespace litespark::cpu {
namespace {

constexpr int64_t kRowsPerBlock = 16;

}  // namespace

void CpuBackend::run(const op::SwiGluForward<Tensor>& op) {
  const int64_t width = op.h.columns();
  const auto kernel = kernel_table(isa_).swiglu_forward[index_of(op.h.dtype)];
  const Rows h(op.h), gate_up(op.gate_up);
  parallel_ranges(threads_, op.h.rows(), kRowsPerBlock, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      kernel({.h = h.row(n), .gate = gate_up.row(n), .up = gate_up.at(n, width), .size = width});
    }
  });
  raise_abs_max(threads_, op.abs_max, op.h);
}

void CpuBackend::run(const op::SwiGluBackward<Tensor>& op) {
  const int64_t width = op.dh.columns();
  const auto kernel = kernel_table(isa_).swiglu_backward[index_of(op.dh.dtype)];
  const Rows dgate_up(op.dgate_up), dh(op.dh), gate_up(op.gate_up);
  parallel_ranges(threads_, op.dh.rows(), kRowsPerBlock, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      kernel({.dgate = dgate_up.row(n),
              .dup = dgate_up.at(n, width),
              .dh = dh.row(n),
              .gate = gate_up.row(n),
              .up = gate_up.at(n, width),
              .size = width});
    }
  });
  raise_abs_max(threads_, op.abs_max, op.dgate_up);
}

// A tile of a product gains nothing by SwiGLU in a cache that holds rows of it anyway: one after the other.
void CpuBackend::run(const op::GatedForward<Tensor>& op) {
  const GatedForwardParts parts = parts_of(op);
  run(parts.product);
  run(parts.activation);
}

void CpuBackend::run(const op::GatedBackward<Tensor>& op) {
  const GatedBackwardParts parts = parts_of(op);
  run(parts.product);
  run(parts.activation);
}

}  // namespace litespark::cpu
