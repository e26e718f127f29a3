// SPDX-License-Identifier: Apache-2.0
// From joules to kilowatt-hours, grams of CO2e and money. Every figure keeps what it rests on: the grid's intensity
// with unit, year and source; the building's overhead apart from the machine's energy.
#pragma once

#include <optional>
#include <string>

namespace litespark {

inline constexpr double kJoulesPerKwh = 3.6e6;

struct GridIntensity {
  double grams_per_kwh = 0;  ///< g CO2e per kWh of electricity, life cycle
  std::string region;        ///< "FR"
  std::string country;       ///< "France"; empty: a number of the user's own
  std::string iso_code;      ///< "FRA", ISO 3166-1 alpha-3; empty for groups of countries and the user's own
  std::string source;        ///< "Ember yearly electricity data, 2024"
};

/// `own_grams_per_kwh` goes before the table. Throws ConfigError naming the region when the table does not have it:
/// there is no silent world average ("WORLD" is an entry to be asked for).
GridIntensity grid_intensity(const std::string& region, const std::optional<double>& own_grams_per_kwh);

/// Raw and with the building's overhead, side by side; each column is consistent in itself.
struct Footprint {
  double machine_kwh = 0;
  double building_kwh = 0;     ///< machine_kwh x PUE
  double machine_grams = 0;    ///< g CO2e of machine_kwh
  double building_grams = 0;   ///< g CO2e of building_kwh
  std::optional<double> cost;  ///< of building_kwh; absent without a price
};

struct FootprintRates {
  double grams_per_kwh = 0;
  double pue = 1.0;
  std::optional<double> price_per_kwh;
};

Footprint footprint(double joules, const FootprintRates& rates);

}  // namespace litespark
