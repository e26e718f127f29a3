// SPDX-License-Identifier: Apache-2.0
// A forecast as one HTML file: memory, a step's time by cause, scaling, cost.
#pragma once

#include <string>

#include "plan/run_forecast.h"

namespace litespark::report {

/// `title` is escaped. Nothing in the page comes from elsewhere.
std::string forecast_page(const RunForecast& forecast, const std::vector<ScalingPoint>& scaling,
                          const std::string& title);

}  // namespace litespark::report
