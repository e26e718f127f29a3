// SPDX-License-Identifier: Apache-2.0
// AdamW of a stretch of parameters: one pass, one division and one root an element, whatever form the weights have.
#pragma once

#include <type_traits>

#include "ops/cpu/kernel_table.h"
#include "ops/cpu/rounding_kernels.h"
#include "ops/cpu/vec16_parts.h"

namespace litespark::cpu {

/// Loads and stores the weights of one form; `i` counts from the start of the stretch.
template <class Vec, op::WeightForm kForm>
struct AdamWWeights {
  const AdamWPart& args;

  template <class Part>
  Vec load(Part part, int64_t i) const {
    if constexpr (kForm == op::WeightForm::kMaster) return part.load(args.master + i);
    if constexpr (kForm == op::WeightForm::kSplit) return load_split<Vec>(part, args.weight + i, args.remainder + i);
    if constexpr (kForm == op::WeightForm::kStochastic) return part.load(args.weight + i);
  }

  template <class Part>
  void store(Part part, int64_t i, Vec value) const {
    if constexpr (kForm == op::WeightForm::kMaster) {
      part.store(args.master + i, value);
      if (args.weight != nullptr) store_nearest_away(part, args.weight + i, value);
    } else if constexpr (kForm == op::WeightForm::kSplit) {
      store_split(part, args.weight + i, args.remainder + i, value);
    } else {
      const RoundingNoise<Vec> noise(args, NoiseUse::kWeights, i);
      store_stochastic(part, args.weight + i, value, noise.low);
    }
  }
};

template <class Vec, class Moment>
struct AdamWMoments {
  Moment* first;
  Moment* second;

  explicit AdamWMoments(const AdamWPart& args)
      : first(static_cast<Moment*>(args.first_moment)), second(static_cast<Moment*>(args.second_moment)) {}

  template <class Part>
  void store(const AdamWPart& args, Part part, int64_t i, Vec new_first, Vec new_second) const {
    if constexpr (std::is_same_v<Moment, float>) {
      part.store(first + i, new_first);
      part.store(second + i, new_second);
    } else {
      const RoundingNoise<Vec> noise(args, NoiseUse::kMoments, i);
      store_stochastic(part, first + i, new_first, noise.low);
      store_stochastic(part, second + i, new_second, noise.high);
    }
  }
};

template <class Vec, op::WeightForm kForm, class Moment, class Gradient>
void adamw(const AdamWPart& args) {
  const Vec gradient_scale = Vec::broadcast(args.gradient_scale);
  const Vec beta1 = Vec::broadcast(args.beta1);
  const Vec new1 = Vec::broadcast(args.new1);
  const Vec beta2 = Vec::broadcast(args.beta2);
  const Vec new2 = Vec::broadcast(args.new2);
  const Vec inverse_root_correction = Vec::broadcast(args.inverse_root_correction);
  const Vec eps = Vec::broadcast(args.eps);
  const Vec step = Vec::broadcast(args.step);
  const Vec decay = Vec::broadcast(args.decay);
  const AdamWWeights<Vec, kForm> weights{args};
  const AdamWMoments<Vec, Moment> moments(args);
  const auto* gradient = static_cast<const Gradient*>(args.gradient);
  for_each_part<Vec>(args.size, [&](auto part, int64_t i) {
    const Vec g = part.load(gradient + i) * gradient_scale;
    const Vec first = fma(beta1, part.load(moments.first + i), new1 * g);
    const Vec second = fma(beta2, part.load(moments.second + i), new2 * g * g);
    const Vec direction = first / fma(sqrt(second), inverse_root_correction, eps);
    const Vec weight = negative_fma(step, direction, weights.load(part, i) * decay);
    moments.store(args, part, i, first, second);
    weights.store(part, i, weight);
  });
}

}  // namespace litespark::cpu
