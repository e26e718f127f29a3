// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <sstream>

#include "meter/emissions.h"
#include "support/error_text.h"

namespace litespark {
namespace {

const GridIntensity kGrid{
    .grams_per_kwh = 50, .region = "FR", .country = "France", .iso_code = "FRA", .source = "test"};

std::vector<std::string> split(const std::string& line) {
  std::vector<std::string> cells;
  std::istringstream stream(line);
  for (std::string cell; std::getline(stream, cell, ',');) cells.push_back(cell);
  return cells;
}

std::map<std::string, std::string> row_of(const EnergyAccount& energy, double pue) {
  const auto names = split(emissions_header());
  const auto cells = split(emissions_line(
      {.timestamp = "2026-01-01T00:00:00", .project_name = "p", .energy = energy, .grid = kGrid, .pue = pue}));
  EXPECT_EQ(names.size(), cells.size());
  std::map<std::string, std::string> row;
  for (size_t i = 0; i < std::min(names.size(), cells.size()); ++i) row[names[i]] = cells[i];
  return row;
}

TEST(Emissions, TheHeaderIsCodeCarbons) {
  EXPECT_TRUE(emissions_header().starts_with(
      "timestamp,project_name,run_id,experiment_id,duration,emissions,emissions_rate,cpu_power,gpu_power,ram_power,"
      "cpu_energy,gpu_energy,ram_energy,energy_consumed,country_name,country_iso_code,region,"));
  EXPECT_TRUE(emissions_header().ends_with(",tracking_mode,on_cloud,pue\n"));
}

TEST(Emissions, ARowIsConsistentInItself) {  // report:B44
  EnergyAccount energy{.joules = 3.6e6, .metered_seconds = 3600};
  energy.devices["cpu"] = {.part = EnergyPart::kCpu, .joules = 3.6e6, .method = EnergyMethod::kCounter};
  auto row = row_of(energy, 1.5);
  EXPECT_DOUBLE_EQ(std::stod(row["cpu_power"]) * std::stod(row["duration"]) / kJoulesPerKwh,
                   std::stod(row["cpu_energy"]));
  EXPECT_DOUBLE_EQ(std::stod(row["energy_consumed"]), 1.0);
  EXPECT_DOUBLE_EQ(std::stod(row["emissions"]), 1.0 * 1.5 * 0.05);  // kg
  EXPECT_DOUBLE_EQ(std::stod(row["emissions_rate"]) * std::stod(row["duration"]), std::stod(row["emissions"]));
  EXPECT_EQ(row["country_name"], "France");
  EXPECT_EQ(row["country_iso_code"], "FRA");  // three letters, as CodeCarbon's dashboards expect
}

TEST(Emissions, WhatIsUnknownIsEmpty) {  // fault:F1
  auto row = row_of({.unmetered_seconds = 10}, 1.0);
  for (const char* name : {"emissions", "emissions_rate", "energy_consumed", "cpu_energy", "gpu_power"}) {
    EXPECT_EQ(row[name], "") << name;
  }
}

TEST(Emissions, TextWithACommaIsQuoted) {
  const EnergyAccount energy;
  const std::string line = emissions_line({.project_name = "a,\"b\"", .energy = energy, .grid = kGrid});
  EXPECT_TRUE(contains(line, "\"a,\"\"b\"\"\""));
}

}  // namespace
}  // namespace litespark
