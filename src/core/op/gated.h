// SPDX-License-Identifier: Apache-2.0
// The MLP's products with SwiGLU inside (Shazeer 2020), for backends that finish a tile of a product while it is still
// close to the arithmetic. Each stands for two ops and has their results, bit for bit where its sums are theirs.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/dtype.h"

namespace litespark::op {

/// gate_up = x weight^T; h = gate * sigmoid(gate) * up of what gate_up holds. gate_up [N, 2 F] and h [N, F] are
/// overwritten; x [N, C]; weight [2 F, C], the gate's rows first. One dtype. scratch: as for MatmulForward, may be
/// absent.
template <class T>
struct GatedForward {
  static constexpr std::string_view kName = "gated_forward";
  T gate_up, h, x, weight, scratch;

  template <class F>
  auto map(F&& f) const {
    return GatedForward<decltype(f.in("x", x))>{.gate_up = f.out("gate_up", gate_up),
                                                .h = f.out("h", h),
                                                .x = f.in("x", x),
                                                .weight = f.in("weight", weight),
                                                .scratch = f.out("scratch", scratch)};
  }
};

/// dgate_up = the gradient of SwiGluForward at gate_up for dh = dout weight, rounded to the dtype between. dgate_up [N,
/// 2 F] is overwritten, it may be the same tensor as gate_up [N, 2 F]; dout [N, C]; weight [C, F], that of the product
/// behind h. One dtype. scratch: gated_gradient_bytes, and behind them as for MatmulBackwardInput.
template <class T>
struct GatedBackward {
  static constexpr std::string_view kName = "gated_backward";
  T dgate_up, gate_up, dout, weight, scratch;

  template <class F>
  auto map(F&& f) const {
    return GatedBackward<decltype(f.in("dout", dout))>{.dgate_up = f.out("dgate_up", dgate_up),
                                                       .gate_up = f.in("gate_up", gate_up),
                                                       .dout = f.in("dout", dout),
                                                       .weight = f.in("weight", weight),
                                                       .scratch = f.out("scratch", scratch)};
  }
};

/// Room for dh [N, F] at the start of GatedBackward's scratch, for backends that make its two halves one after the
/// other.
inline int64_t gated_gradient_bytes(int64_t rows, int64_t columns, DType dtype) {
  return (rows * columns * dtype_bytes(dtype) + 255) / 256 * 256;
}

}  // namespace litespark::op
