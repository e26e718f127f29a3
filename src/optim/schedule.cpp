// SPDX-License-Identifier: Apache-2.0
#include "optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>

#include "core/error.h"

namespace litespark {

Decay parse_decay(std::string_view name) {
  if (name == "cosine") return Decay::kCosine;
  if (name == "linear") return Decay::kLinear;
  if (name == "wsd") return Decay::kWsd;
  if (name == "constant") return Decay::kConstant;
  if (name == "inverse_sqrt") return Decay::kInverseSqrt;
  throw ConfigError("schedule.name", "unknown schedule", name, "cosine, linear, wsd, constant or inverse_sqrt");
}

double Schedule::at(int64_t step) const {
  if (step < warmup_steps) {
    return peak * static_cast<double>(step + 1) / static_cast<double>(warmup_steps);
  }
  const auto after_warmup = static_cast<double>(step - warmup_steps);
  const auto decay_steps = static_cast<double>(std::max<int64_t>(total_steps - warmup_steps, 1));
  const double progress = std::min(after_warmup / decay_steps, 1.0);
  switch (decay) {
    case Decay::kConstant: return peak;
    case Decay::kCosine:
      return peak * (final_fraction + (1.0 - final_fraction) * 0.5 * (1.0 + std::cos(std::numbers::pi * progress)));
    case Decay::kLinear: return peak * (1.0 - (1.0 - final_fraction) * progress);
    case Decay::kInverseSqrt: {
      const auto origin = static_cast<double>(std::max<int64_t>(warmup_steps, 1));
      return peak * std::sqrt(origin / (origin + after_warmup));
    }
    case Decay::kWsd: {
      const double start = static_cast<double>(total_steps) * (1.0 - decay_fraction);
      if (static_cast<double>(step) < start) return peak;
      const double part =
          std::min((static_cast<double>(step) - start) / (static_cast<double>(total_steps) - start), 1.0);
      return peak * (final_fraction + (1.0 - final_fraction) * (1.0 - std::sqrt(part)));
    }
  }
  throw InternalError("schedule", "unknown decay", static_cast<int>(decay), "a Decay");
}

void Schedule::validate() const {
  if (!(peak > 0.0) || !std::isfinite(peak))
    throw ConfigError("optim.lr", "must be a positive number", peak, "for example 3e-4");
  if (total_steps <= 0) throw ConfigError("train.steps", "must be positive", total_steps, "1 or more");
  if (warmup_steps < 0 || warmup_steps > total_steps) {
    throw ConfigError("schedule.warmup", "out of range", warmup_steps,
                      "0 to train.steps = " + std::to_string(total_steps));
  }
  if (!(final_fraction >= 0.0) || final_fraction > 1.0) {
    throw ConfigError("schedule.final_fraction", "out of range", final_fraction, "0 to 1");
  }
  if (decay == Decay::kWsd && (!(decay_fraction > 0.0) || decay_fraction > 1.0)) {
    throw ConfigError("schedule.decay_fraction", "out of range", decay_fraction, "more than 0, at most 1");
  }
}

}  // namespace litespark
