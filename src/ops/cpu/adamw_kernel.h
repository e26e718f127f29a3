// SPDX-License-Identifier: Apache-2.0
// AdamW of a stretch of parameters: one pass, one division and one root an element.
#pragma once

#include "ops/cpu/kernel_table.h"
#include "ops/cpu/vec16_parts.h"

namespace litespark::cpu {

template <class Vec>
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
  for_each_part<Vec>(args.size, [&](auto part, int64_t i) {
    const Vec g = part.load(args.gradient + i) * gradient_scale;
    const Vec first = fma(beta1, part.load(args.first_moment + i), new1 * g);
    const Vec second = fma(beta2, part.load(args.second_moment + i), new2 * g * g);
    const Vec direction = first / fma(sqrt(second), inverse_root_correction, eps);
    const Vec master = negative_fma(step, direction, part.load(args.master + i) * decay);
    part.store(args.first_moment + i, first);
    part.store(args.second_moment + i, second);
    part.store(args.master + i, master);
    if (args.weight != nullptr) part.store(args.weight + i, master);
  });
}

}  // namespace litespark::cpu
