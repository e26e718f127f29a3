// SPDX-License-Identifier: Apache-2.0
// The [cost] section: what a forecast counts that no meter of a run sees.
#include "spec/run_config.h"

namespace litespark {

void CostSection::visit(Fields& fields) {
  fields.add({.path = "market_intensity",
              .value = &market_intensity,
              .help =
                  "Carbon intensity of the electricity that is bought (market-based), beside the grid's. Unset: it is "
                  "not known.",
              .unit = "g CO2e per kWh",
              .range = between(0, 5000)});
  fields.add(
      {.path = "market_source", .value = &market_source, .help = "Where that figure comes from: contract and year."});
  fields.add({.path = "data",
              .value = &data,
              .help = "Cost of preparing the data.",
              .unit = "dollars",
              .range = between(0, 1e15)});
  fields.add({.path = "labels",
              .value = &labels,
              .help = "Cost of people who label or compare.",
              .unit = "dollars",
              .range = between(0, 1e15)});
  fields.add({.path = "lifetime_years",
              .value = &lifetime_years,
              .help = "Over which the carbon of making the machines is spread.",
              .unit = "years",
              .range = between(0.1, 100)});
  fields.add({.path = "device_mtbf_hours",
              .value = &device_mtbf_hours,
              .help = "Mean time between failures of one device with its share of everything around it.",
              .unit = "hours",
              .range = between(1, 1e12)});
  fields.add({.path = "restart_seconds",
              .value = &restart_seconds,
              .help = "From a failure until training goes on, without the work done again.",
              .unit = "seconds",
              .range = between(0, 1e9)});
}

}  // namespace litespark
