// SPDX-License-Identifier: Apache-2.0
// RMSNorm (Zhang and Sennrich 2019), with the residual addition that precedes it in a block, and the per-head form of
// Qwen3.
#pragma once

#include <string_view>

namespace litespark::op {

/// sum = x + delta (rounded to the dtype of sum; without delta sum is absent and x is used);
/// rstd = 1 / sqrt(mean(sum^2) + eps), taken from the rounded sum; y = sum * rstd * weight.
/// x, sum [N, C] residual dtype; delta, y [N, C] compute dtype; rstd [N] f32; weight [C] f32.
/// y, rstd and sum are overwritten; sum may be the same tensor as x. abs_max [1] f32, when present, is raised to max
/// |y| as op::AbsMax does.
template <class T>
struct RmsNormForward {
  static constexpr std::string_view kName = "rms_norm_forward";
  T y, rstd, sum, x, delta, weight, abs_max;
  float eps = 1e-5f;

  template <class F>
  auto map(F&& f) const {
    return RmsNormForward<decltype(f.in("x", x))>{.y = f.out("y", y),
                                                  .rstd = f.out("rstd", rstd),
                                                  .sum = f.out("sum", sum),
                                                  .x = f.in("x", x),
                                                  .delta = f.in("delta", delta),
                                                  .weight = f.in("weight", weight),
                                                  .abs_max = f.inout("abs_max", abs_max),
                                                  .eps = eps};
  }
};

/// dresidual += rstd * (weight * dy - x * rstd^2 * mean(weight * dy * x)) in place (or overwritten when
/// `first`, where no gradient arrives from above); dresidual_cast, when present, receives the result in the compute
/// dtype; dweight (+)= sum over rows of dy * x * rstd, partial sums of a fixed number of rows added in order.
/// dresidual, x [N, C] residual dtype; dy, dresidual_cast [N, C] compute dtype; rstd [N] f32; weight, dweight [C] f32;
/// partials [ceil(N / kRmsNormRowsPerBlock), C] f32 scratch. abs_max [1] f32, when present, is raised to the largest
/// |dresidual_cast| (|dresidual| without it) as op::AbsMax does.
template <class T>
struct RmsNormBackward {
  static constexpr std::string_view kName = "rms_norm_backward";
  T dresidual, dresidual_cast, dweight, dy, x, rstd, weight, partials, abs_max;
  bool first = false;       ///< overwrite dresidual instead of adding to it
  bool accumulate = false;  ///< add to dweight

  template <class F>
  auto map(F&& f) const {
    return RmsNormBackward<decltype(f.in("dy", dy))>{
        .dresidual = first ? f.out("dresidual", dresidual) : f.inout("dresidual", dresidual),
        .dresidual_cast = f.out("dresidual_cast", dresidual_cast),
        .dweight = accumulate ? f.inout("dweight", dweight) : f.out("dweight", dweight),
        .dy = f.in("dy", dy),
        .x = f.in("x", x),
        .rstd = f.in("rstd", rstd),
        .weight = f.in("weight", weight),
        .partials = f.out("partials", partials),
        .abs_max = f.inout("abs_max", abs_max),
        .first = first,
        .accumulate = accumulate};
  }
};

/// Rows whose weight gradients are summed before they meet the others; fixed so that results do not depend on threads.
inline constexpr int kRmsNormRowsPerBlock = 64;

/// Per-head RMSNorm of the query and key heads of a packed [N, (H + 2 K) D] tensor; value heads are copied.
/// out, qkv [N, (H + 2 K) D]; rstd [N, H + K] f32; q_weight, k_weight [D] f32. `out` and `rstd` are overwritten.
template <class T>
struct HeadNormForward {
  static constexpr std::string_view kName = "head_norm_forward";
  T out, rstd, qkv, q_weight, k_weight;
  int num_heads = 0;     ///< H
  int num_kv_heads = 0;  ///< K
  int head_dim = 0;      ///< D
  float eps = 1e-6f;

  template <class F>
  auto map(F&& f) const {
    return HeadNormForward<decltype(f.in("qkv", qkv))>{.out = f.out("out", out),
                                                       .rstd = f.out("rstd", rstd),
                                                       .qkv = f.in("qkv", qkv),
                                                       .q_weight = f.in("q_weight", q_weight),
                                                       .k_weight = f.in("k_weight", k_weight),
                                                       .num_heads = num_heads,
                                                       .num_kv_heads = num_kv_heads,
                                                       .head_dim = head_dim,
                                                       .eps = eps};
  }
};

/// Gradient of HeadNormForward: dqkv holds dout on entry and the gradient of the un-normalised heads on return (value
/// heads unchanged). partials [ceil(N / kRmsNormRowsPerBlock), 2 D] f32 scratch; dq_weight, dk_weight [D] f32.
template <class T>
struct HeadNormBackward {
  static constexpr std::string_view kName = "head_norm_backward";
  T dqkv, dq_weight, dk_weight, qkv, rstd, q_weight, k_weight, partials;
  int num_heads = 0;
  int num_kv_heads = 0;
  int head_dim = 0;
  bool accumulate = false;

  template <class F>
  auto map(F&& f) const {
    return HeadNormBackward<decltype(f.in("qkv", qkv))>{
        .dqkv = f.inout("dqkv", dqkv),
        .dq_weight = accumulate ? f.inout("dq_weight", dq_weight) : f.out("dq_weight", dq_weight),
        .dk_weight = accumulate ? f.inout("dk_weight", dk_weight) : f.out("dk_weight", dk_weight),
        .qkv = f.in("qkv", qkv),
        .rstd = f.in("rstd", rstd),
        .q_weight = f.in("q_weight", q_weight),
        .k_weight = f.in("k_weight", k_weight),
        .partials = f.out("partials", partials),
        .num_heads = num_heads,
        .num_kv_heads = num_kv_heads,
        .head_dim = head_dim,
        .accumulate = accumulate};
  }
};

}  // namespace litespark::op
