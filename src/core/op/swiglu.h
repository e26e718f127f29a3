// SPDX-License-Identifier: Apache-2.0
// SwiGLU (Shazeer 2020): h = silu(gate) * up.
#pragma once

#include <string_view>

namespace litespark::op {

/// h = gate * sigmoid(gate) * up. h [N, F]; gate_up [N, 2 F], gate in the first F columns. `h` is overwritten.
/// abs_max [1] f32, when present, is raised to max |h| as op::AbsMax does.
template <class T>
struct SwiGluForward {
  static constexpr std::string_view kName = "swiglu_forward";
  T h, gate_up, abs_max;

  template <class F>
  auto map(F&& f) const {
    return SwiGluForward<decltype(f.in("gate_up", gate_up))>{
        .h = f.out("h", h), .gate_up = f.in("gate_up", gate_up), .abs_max = f.inout("abs_max", abs_max)};
  }
};

/// dgate = dh * up * sigmoid(gate) * (1 + gate * (1 - sigmoid(gate))); dup = dh * silu(gate).
/// dgate_up [N, 2 F] is overwritten; it may be the same tensor as gate_up. abs_max as above, of dgate_up.
template <class T>
struct SwiGluBackward {
  static constexpr std::string_view kName = "swiglu_backward";
  T dgate_up, dh, gate_up, abs_max;

  template <class F>
  auto map(F&& f) const {
    return SwiGluBackward<decltype(f.in("dh", dh))>{.dgate_up = f.out("dgate_up", dgate_up),
                                                    .dh = f.in("dh", dh),
                                                    .gate_up = f.in("gate_up", gate_up),
                                                    .abs_max = f.inout("abs_max", abs_max)};
  }
};

}  // namespace litespark::op
