// SPDX-License-Identifier: Apache-2.0
#include "meter/carbon.h"

#include <array>

#include "core/error.h"

namespace litespark {
namespace {

struct Row {
  const char* region;
  const char* country;
  double grams_per_kwh;
};

/// Averages over the calendar year 2024, life cycle, 100-year CO2 equivalents, as the interface of
/// Ember's "Yearly electricity data" gave them on 2025-08-03 (CC BY 4.0;
/// ember-energy.org/data/yearly-electricity-data), rounded to grams. Later releases move a country by a few grams.
constexpr const char* kSource = "Ember yearly electricity data, 2024";

constexpr std::array<Row, 33> kTable = {{
    {"AE", "United Arab Emirates", 468},
    {"AT", "Austria", 103},
    {"AU", "Australia", 554},
    {"BE", "Belgium", 118},
    {"BR", "Brazil", 106},
    {"CA", "Canada", 185},
    {"CH", "Switzerland", 37},
    {"CN", "China", 558},
    {"CZ", "Czechia", 414},
    {"DE", "Germany", 342},
    {"DK", "Denmark", 143},
    {"ES", "Spain", 146},
    {"EU", "European Union", 213},
    {"FI", "Finland", 72},
    {"FR", "France", 44},
    {"GB", "United Kingdom", 216},
    {"IE", "Ireland", 280},
    {"IN", "India", 709},
    {"IT", "Italy", 288},
    {"JP", "Japan", 484},
    {"KR", "South Korea", 416},
    {"MX", "Mexico", 483},
    {"NL", "Netherlands", 253},
    {"NO", "Norway", 31},
    {"PL", "Poland", 615},
    {"PT", "Portugal", 112},
    {"SA", "Saudi Arabia", 692},
    {"SE", "Sweden", 36},
    {"SG", "Singapore", 499},
    {"TW", "Taiwan", 635},
    {"US", "United States", 384},
    {"WORLD", "World", 473},
    {"ZA", "South Africa", 714},
}};

}  // namespace

GridIntensity grid_intensity(const std::string& region, const std::optional<double>& own_grams_per_kwh) {
  if (own_grams_per_kwh) {
    return {.grams_per_kwh = *own_grams_per_kwh, .region = region, .country = "", .source = "meter.grid_intensity"};
  }
  std::string known;
  for (const Row& row : kTable) {
    if (region == row.region) {
      return {.grams_per_kwh = row.grams_per_kwh, .region = region, .country = row.country, .source = kSource};
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
