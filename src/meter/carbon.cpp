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

/// Rounded figures of Ember's yearly electricity data (CC BY 4.0), as Our World in Data shows them under "carbon
/// intensity of electricity generation": a year's average of a whole grid says no more.
constexpr const char* kSource = "Ember yearly electricity data, 2023, rounded";

constexpr std::array<Row, 20> kTable = {{
    {"AU", "Australia", 550}, {"BR", "Brazil", 97},   {"CA", "Canada", 170},         {"CH", "Switzerland", 37},
    {"CN", "China", 580},     {"DE", "Germany", 380}, {"ES", "Spain", 175},          {"EU", "European Union", 245},
    {"FI", "Finland", 80},    {"FR", "France", 56},   {"GB", "United Kingdom", 240}, {"IE", "Ireland", 280},
    {"IN", "India", 710},     {"IT", "Italy", 330},   {"JP", "Japan", 490},          {"NO", "Norway", 30},
    {"PL", "Poland", 660},    {"SE", "Sweden", 40},   {"US", "United States", 370},  {"WORLD", "World", 480},
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
