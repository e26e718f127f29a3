// SPDX-License-Identifier: Apache-2.0
// The optimizer phase: global norm, the decision to step, AdamW.
#pragma once

#include <cstdint>
#include <string_view>

namespace litespark::op {

/// state.gradient_square_sum += sum of squares of `gradient` (flat, f32), in double, blocks of kSquareSumBlock elements
/// added in order. partials [ceil(P / kSquareSumBlock)] f64 scratch.
template <class T>
struct GradientSquareSum {
  static constexpr std::string_view kName = "gradient_square_sum";
  T state, gradient, partials;

  template <class F>
  auto map(F&& f) const {
    return GradientSquareSum<decltype(f.in("gradient", gradient))>{.state = f.inout("state", state),
                                                                   .gradient = f.in("gradient", gradient),
                                                                   .partials = f.out("partials", partials)};
  }
};

inline constexpr int64_t kSquareSumBlock = 16384;

/// Decides the step from what it accumulated: gradient_norm = sqrt(square sum) / supervised tokens; gradient_scale =
/// min(1, clip_norm / (gradient_norm + 1e-6)) / supervised tokens; skipped = 1 when no token was supervised, a loss or
/// norm is not finite, bad_tokens > 0, or the norm exceeds spike_limit. When not skipped, optimizer_steps advances and
/// bias_correction_i = 1 - beta_i^optimizer_steps (in double); else skipped_steps advances.
template <class T>
struct StepDecision {
  static constexpr std::string_view kName = "step_decision";
  T state;
  double beta1 = 0.9;
  double beta2 = 0.999;

  template <class F>
  auto map(F&& f) const {
    return StepDecision<decltype(f.inout("state", state))>{
        .state = f.inout("state", state), .beta1 = beta1, .beta2 = beta2};
  }
};

/// Decoupled weight decay Adam (Loshchilov and Hutter 2019), nothing when state.skipped:
///   g = gradient * state.gradient_scale; master *= 1 - lr * weight_decay;
///   m = beta1 m + (1 - beta1) g; v = beta2 v + (1 - beta2) g^2;
///   master -= lr * (m / bias_correction1) / (sqrt(v / bias_correction2) + eps).
/// master, first_moment, second_moment, gradient: flat f32 of equal size. weight, when present: the compute copy,
/// bf16, receives the rounded master (written also when skipped is 0 only).
template <class T>
struct AdamW {
  static constexpr std::string_view kName = "adamw";
  T master, first_moment, second_moment, weight, gradient, state;
  // Doubles: 1 - beta2 of a rounded beta2 would be off by 5e-5 against the bias correction.
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;

  template <class F>
  auto map(F&& f) const {
    return AdamW<decltype(f.in("gradient", gradient))>{.master = f.inout("master", master),
                                                       .first_moment = f.inout("first_moment", first_moment),
                                                       .second_moment = f.inout("second_moment", second_moment),
                                                       .weight = f.inout("weight", weight),
                                                       .gradient = f.in("gradient", gradient),
                                                       .state = f.in("state", state),
                                                       .beta1 = beta1,
                                                       .beta2 = beta2,
                                                       .eps = eps,
                                                       .weight_decay = weight_decay};
  }
};

/// out = x converted to out's dtype (f32 or bf16), or a plain copy when they are equal. Same number of elements.
template <class T>
struct Convert {
  static constexpr std::string_view kName = "convert";
  T out, x;

  template <class F>
  auto map(F&& f) const {
    return Convert<decltype(f.in("x", x))>{.out = f.out("out", out), .x = f.in("x", x)};
  }
};

}  // namespace litespark::op
