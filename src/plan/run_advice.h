// SPDX-License-Identifier: Apache-2.0
// Advice on settings that a forecast can judge, each with its reason and what it rests on (claim:L13). It changes
// nothing.
#pragma once

#include <string>
#include <vector>

#include "plan/run_forecast.h"
#include "plan/width_table.h"

namespace litespark {

struct Advice {
  std::string key;      ///< of the run file
  std::string found;    ///< what the run has
  std::string advised;  ///< empty: as it is
  std::string reason;
};

/// Warm-up, batch, clip, width of the feed-forward layer, checkpoint interval. `widths`: what a machine was measured to
/// say of a device's share of that width; without it the usual tile is the reason.
std::vector<Advice> run_advice(const RunConfig& config, const RunForecast& forecast,
                               const WidthAdvice* widths = nullptr);

std::string advice_text(const std::vector<Advice>& advice);

}  // namespace litespark
