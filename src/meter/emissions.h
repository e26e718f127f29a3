// SPDX-License-Identifier: Apache-2.0
// emissions.csv with CodeCarbon's columns and units (kWh, kg CO2e, W, s), so that tools which read those files read
// ours. Power and energy are the machine's own, so power x duration = energy; emissions alone include the PUE, which
// has its own column.
#pragma once

#include <string>

#include "meter/carbon.h"
#include "meter/energy_account.h"

namespace litespark {

struct EmissionsRow {
  std::string timestamp;  ///< local time, ISO 8601
  std::string project_name;
  std::string run_id;
  std::string version;  ///< of this program
  const EnergyAccount& energy;
  const GridIntensity& grid;
  double pue = 1.0;
  int cpu_count = 0;
  int gpu_count = 0;
  std::string gpu_model;
  double ram_gib = 0;
};

/// The line of column names, with its newline.
std::string emissions_header();
/// One line; cells of what is unknown are empty, never 0.
std::string emissions_line(const EmissionsRow& row);

}  // namespace litespark
