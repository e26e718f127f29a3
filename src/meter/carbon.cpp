// SPDX-License-Identifier: Apache-2.0
#include "meter/carbon.h"

#include <array>

#include "core/error.h"

namespace litespark {
namespace {

struct Row {
  const char* region;
  const char* iso_code;
  const char* country;
  double grams_per_kwh;
};

/// Averages over the calendar year 2024, life cycle, 100-year CO2 equivalents, as the interface of
/// Ember's "Yearly electricity data" gave them on 2025-08-03 (CC BY 4.0;
/// ember-energy.org/data/yearly-electricity-data), rounded to grams. Later releases move a country by a few grams.
constexpr const char* kSource = "Ember yearly electricity data, 2024";

constexpr std::array<Row, 33> kTable = {{
    {"AE", "ARE", "United Arab Emirates", 468},
    {"AT", "AUT", "Austria", 103},
    {"AU", "AUS", "Australia", 554},
    {"BE", "BEL", "Belgium", 118},
    {"BR", "BRA", "Brazil", 106},
    {"CA", "CAN", "Canada", 185},
    {"CH", "CHE", "Switzerland", 37},
    {"CN", "CHN", "China", 558},
    {"CZ", "CZE", "Czechia", 414},
    {"DE", "DEU", "Germany", 342},
    {"DK", "DNK", "Denmark", 143},
    {"ES", "ESP", "Spain", 146},
    {"EU", "", "European Union", 213},
    {"FI", "FIN", "Finland", 72},
    {"FR", "FRA", "France", 44},
    {"GB", "GBR", "United Kingdom", 216},
    {"IE", "IRL", "Ireland", 280},
    {"IN", "IND", "India", 709},
    {"IT", "ITA", "Italy", 288},
    {"JP", "JPN", "Japan", 484},
    {"KR", "KOR", "South Korea", 416},
    {"MX", "MEX", "Mexico", 483},
    {"NL", "NLD", "Netherlands", 253},
    {"NO", "NOR", "Norway", 31},
    {"PL", "POL", "Poland", 615},
    {"PT", "PRT", "Portugal", 112},
    {"SA", "SAU", "Saudi Arabia", 692},
    {"SE", "SWE", "Sweden", 36},
    {"SG", "SGP", "Singapore", 499},
    {"TW", "TWN", "Taiwan", 635},
    {"US", "USA", "United States", 384},
    {"WORLD", "", "World", 473},
    {"ZA", "ZAF", "South Africa", 714},
}};

}  // namespace

GridIntensity grid_intensity(const std::string& region, const std::optional<double>& own_grams_per_kwh) {
  if (own_grams_per_kwh) {
    return {.grams_per_kwh = *own_grams_per_kwh,
            .region = region,
            .country = "",
            .iso_code = "",
            .source = "meter.grid_intensity"};
  }
  std::string known;
  for (const Row& row : kTable) {
    if (region == row.region) {
      return {.grams_per_kwh = row.grams_per_kwh,
              .region = region,
              .country = row.country,
              .iso_code = row.iso_code,
              .source = kSource};
    }
    known.append(known.empty() ? "" : ", ").append(row.region);
  }
  throw ConfigError("meter.grid", "is not in the carbon table", "\"" + region + "\"", "one of " + known,
                    "give meter.grid_intensity in g CO2e per kWh for another grid");
}

Footprint footprint(double joules, const FootprintRates& rates) {
  Footprint result;
  result.machine_kwh = joules / kJoulesPerKwh;
  result.building_kwh = result.machine_kwh * rates.pue;
  result.machine_grams = result.machine_kwh * rates.grams_per_kwh;
  result.building_grams = result.building_kwh * rates.grams_per_kwh;
  if (rates.price_per_kwh) result.cost = result.building_kwh * *rates.price_per_kwh;
  return result;
}

}  // namespace litespark
