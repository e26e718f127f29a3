// SPDX-License-Identifier: Apache-2.0
// Matmuls on 8-bit floats: the largest magnitude of a tensor, its scaled 8-bit copies, the product of two such copies.
// The tensor cores of Hopper multiply 8-bit operands only where the summed dimension is contiguous in both, so each
// product takes row-major A [M, K] and B [N, K], and gradients take transposed copies.
#pragma once

#include <cstdint>
#include <string_view>

namespace litespark::op {

/// x = 0; with `state` only in a step that is taken, after its decision. x f32
/// of any shape.
template <class T>
struct Clear {
  static constexpr std::string_view kName = "clear";
  T x, state;

  template <class F>
  auto map(F&& f) const {
    return Clear<decltype(f.out("x", x))>{.x = state.has_value() ? f.inout("x", x) : f.out("x", x),
                                          .state = f.in("state", state)};
  }
};

/// abs_max = max(abs_max, |x|), over all of x [R, C] f32 or bf16 where it is [1], over each row where it is [R];
/// column_abs_max [C], optional, over each column. f32; Inf counts as larger than any number and NaN as larger than
/// Inf.
template <class T>
struct AbsMax {
  static constexpr std::string_view kName = "abs_max";
  T abs_max, column_abs_max, x;

  template <class F>
  auto map(F&& f) const {
    return AbsMax<decltype(f.in("x", x))>{.abs_max = f.inout("abs_max", abs_max),
                                          .column_abs_max = f.inout("column_abs_max", column_abs_max),
                                          .x = f.in("x", x)};
  }
};

/// What QuantizeFp8 counts a tensor as, in StepState.
enum class Fp8Kind : uint8_t { kInput, kGradient, kWeight };

/// q = round(x * s), q_transposed = round(x * s)^T, s and its inverse by fp8_scale of the largest magnitude
/// (core/fp8.h). x [R, C] f32 or bf16; q [R, C], q_transposed [C, R] of one 8-bit type, either may be absent.
/// abs_max f32 [1] or [R], read; scale of the same size, overwritten with what products are multiplied by. With
/// column_abs_max [C] q_transposed is scaled by that, one scale a row of it, and column_scale [C] is overwritten;
/// without it abs_max is [1] and holds for both copies. `state`, optional, counts as `kind` says: elements, those
/// flushed to zero (in q, or in q_transposed where there is no q), tensors, rows or columns with Inf or NaN.
template <class T>
struct QuantizeFp8 {
  static constexpr std::string_view kName = "quantize_fp8";
  T q, q_transposed, scale, column_scale, x, abs_max, column_abs_max, state;
  Fp8Kind kind = Fp8Kind::kInput;

  template <class F>
  auto map(F&& f) const {
    return QuantizeFp8<decltype(f.in("x", x))>{.q = f.out("q", q),
                                               .q_transposed = f.out("q_transposed", q_transposed),
                                               .scale = f.out("scale", scale),
                                               .column_scale = f.out("column_scale", column_scale),
                                               .x = f.in("x", x),
                                               .abs_max = f.in("abs_max", abs_max),
                                               .column_abs_max = f.in("column_abs_max", column_abs_max),
                                               .state = f.inout("state", state),
                                               .kind = kind};
  }
};

/// out (+)= (a_scale a) (b_scale b)^T + bias. out [M, N] f32 or bf16; a [M, K], b [N, K] 8-bit floats, M any, K and N
/// multiples of 16; a_scale f32 [1] or [M], b_scale [1] or [N], both of one number or both of many; bias [N] f32,
/// optional and for a bf16 output; accumulation is for an f32 one. scratch: bytes the backend asks for, may be absent.
/// `is_fast`: partial sums may stay in the tensor cores' own narrower accumulators over the whole of K.
template <class T>
struct ScaledMatmul {
  static constexpr std::string_view kName = "scaled_matmul";
  T out, a, b, a_scale, b_scale, bias, scratch;
  bool accumulate = false;
  bool is_fast = false;

  template <class F>
  auto map(F&& f) const {
    return ScaledMatmul<decltype(f.in("a", a))>{.out = accumulate ? f.inout("out", out) : f.out("out", out),
                                                .a = f.in("a", a),
                                                .b = f.in("b", b),
                                                .a_scale = f.in("a_scale", a_scale),
                                                .b_scale = f.in("b_scale", b_scale),
                                                .bias = f.in("bias", bias),
                                                .scratch = f.out("scratch", scratch),
                                                .accumulate = accumulate,
                                                .is_fast = is_fast};
  }
};

}  // namespace litespark::op
