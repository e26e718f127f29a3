// SPDX-License-Identifier: Apache-2.0
// A forecast for people, for programs and for sweeps. Whatever is not known says "n/a", never 0.
#pragma once

#include <string>

#include "plan/run_forecast.h"

namespace litespark {

std::string forecast_text(const RunForecast& forecast);
/// One object.
std::string forecast_json(const RunForecast& forecast);
/// One line under forecast_csv_head(), with its line end: for sweeps.
std::string forecast_csv(const RunForecast& forecast);
std::string forecast_csv_head();

}  // namespace litespark
