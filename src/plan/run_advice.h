// SPDX-License-Identifier: Apache-2.0
// Advice on settings that a forecast can judge, each with its reason and what it rests on (claim:L13). It changes
// nothing.
#pragma once

#include <string>
#include <vector>

#include "plan/run_forecast.h"

namespace litespark {

struct Advice {
  std::string key;      ///< of the run file
  std::string found;    ///< what the run has
  std::string advised;  ///< empty: as it is
  std::string reason;
};

/// Warm-up, batch, clip, width of the feed-forward layer, checkpoint interval.
std::vector<Advice> run_advice(const RunConfig& config, const RunForecast& forecast);

std::string advice_text(const std::vector<Advice>& advice);

}  // namespace litespark
