// SPDX-License-Identifier: Apache-2.0
// The optimizer phase: global norm, the decision to step, AdamW.
#pragma once

#include <cstdint>
#include <string_view>

namespace litespark::op {

/// state.gradient_square_sum += `factor` x the sum of squares of `gradient` (flat, f32 or bf16), in double, blocks of
/// kSquareSumBlock elements added in order. partials [ceil(P / kSquareSumBlock)] f64 scratch.
template <class T>
struct GradientSquareSum {
  static constexpr std::string_view kName = "gradient_square_sum";
  T state, gradient, partials;
  double factor = 1;

  template <class F>
  auto map(F&& f) const {
    return GradientSquareSum<decltype(f.in("gradient", gradient))>{.state = f.inout("state", state),
                                                                   .gradient = f.in("gradient", gradient),
                                                                   .partials = f.out("partials", partials),
                                                                   .factor = factor};
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

/// How AdamW meets the weights, by which of its tensors are there (core/bf16_rounding.h).
enum class WeightForm : uint8_t {
  kMaster,      ///< master f32; `weight` bf16, when present, receives the nearest bf16, ties away from zero
  kSplit,       ///< weight bf16 and remainder u16, the halves of the master; the same bits as kMaster
  kStochastic,  ///< weight bf16 alone, written with stochastic rounding
};
inline constexpr int kNumWeightForms = 3;

/// Decoupled weight decay Adam (Loshchilov and Hutter 2019), nothing when state.skipped:
///   g = gradient * (state.gradient_scale * gradient_factor); master *= 1 - lr * weight_decay;
///   m = beta1 m + (1 - beta1) g; v = beta2 v + (1 - beta2) g^2;
///   master -= lr * (m / bias_correction1) / (sqrt(v / bias_correction2) + eps).
/// All of equal size; first_moment and second_moment f32 or both bf16, which are written with stochastic rounding;
/// gradient f32 or bf16; master, weight and remainder as WeightForm says. The noise of element i is that of element
/// first_element + i of the flat parameters in step state.rng_counter. abs_max [1] f32, when present, is raised to the
/// largest magnitude of the weights that were written, or of the master where there are none, as op::AbsMax does.
template <class T>
struct AdamW {
  static constexpr std::string_view kName = "adamw";
  T master, first_moment, second_moment, weight, remainder, gradient, state, abs_max;
  // Doubles: 1 - beta2 of a rounded beta2 would be off by 5e-5 against the bias correction.
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  double gradient_factor = 1;  ///< where `gradient` is but a part of a sum: what makes it an estimate of the whole
  uint64_t seed = 0;           ///< of the noise
  int64_t first_element = 0;   ///< a multiple of 4

  WeightForm form() const {
    if (master.has_value()) return WeightForm::kMaster;
    return remainder.has_value() ? WeightForm::kSplit : WeightForm::kStochastic;
  }

  template <class F>
  auto map(F&& f) const {
    return AdamW<decltype(f.in("gradient", gradient))>{.master = f.inout("master", master),
                                                       .first_moment = f.inout("first_moment", first_moment),
                                                       .second_moment = f.inout("second_moment", second_moment),
                                                       .weight = f.inout("weight", weight),
                                                       .remainder = f.inout("remainder", remainder),
                                                       .gradient = f.in("gradient", gradient),
                                                       .state = f.in("state", state),
                                                       .abs_max = f.inout("abs_max", abs_max),
                                                       .beta1 = beta1,
                                                       .beta2 = beta2,
                                                       .eps = eps,
                                                       .weight_decay = weight_decay,
                                                       .gradient_factor = gradient_factor,
                                                       .seed = seed,
                                                       .first_element = first_element};
  }
};

/// The mean of all ranks' copies of parameters that each updated by itself: copy = sum / ranks, element by element, in
/// f64, rounded once. copy, sum [P] f32; `sum` is that of the copies of all ranks, so that all get the same bits. With
/// `state`: state.copy_drift = |copy - mean| / |mean| of the copy as it was, Euclidean norms over all elements summed
/// in f64 as GradientSquareSum does; 0 where nothing differs. partials [2 ceil(P / kSquareSumBlock)] f64 scratch.
template <class T>
struct MeanOfCopies {
  static constexpr std::string_view kName = "mean_of_copies";
  T copy, sum, state, partials;
  int64_t ranks = 1;

  template <class F>
  auto map(F&& f) const {
    return MeanOfCopies<decltype(f.in("sum", sum))>{.copy = f.inout("copy", copy),
                                                    .sum = f.in("sum", sum),
                                                    .state = f.inout("state", state),
                                                    .partials = f.out("partials", partials),
                                                    .ranks = ranks};
  }
};

/// sum += x, element by element. sum f32; x f32 or bf16. Same number of elements.
template <class T>
struct Add {
  static constexpr std::string_view kName = "add";
  T sum, x;

  template <class F>
  auto map(F&& f) const {
    return Add<decltype(f.in("x", x))>{.sum = f.inout("sum", sum), .x = f.in("x", x)};
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
