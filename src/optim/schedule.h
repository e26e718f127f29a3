// SPDX-License-Identifier: Apache-2.0
// Learning-rate schedules: linear warm-up, then one of five decays. A pure function of the step, so a resumed run
// cannot drift from it.
#pragma once

#include <cstdint>
#include <string_view>

namespace litespark {

enum class Decay : uint8_t { kCosine, kLinear, kWsd, kConstant, kInverseSqrt };

/// "cosine", "linear", "wsd", "constant", "inverse_sqrt"; throws ConfigError naming schedule.name otherwise.
Decay parse_decay(std::string_view name);

struct Schedule {
  Decay decay = Decay::kCosine;
  double peak = 3e-4;  ///< learning rate after warm-up
  int64_t warmup_steps = 0;
  int64_t total_steps = 1;
  double final_fraction = 0.1;  ///< of the peak, reached at total_steps (cosine, linear, wsd)
  double decay_fraction = 0.2;  ///< wsd: last part of the run that decays, as 1 - sqrt

  /// Learning rate of `step` (0-based). Steps past the end keep the last value.
  double at(int64_t step) const;
  /// Throws ConfigError naming the field.
  void validate() const;

  bool operator==(const Schedule&) const = default;
};

}  // namespace litespark
