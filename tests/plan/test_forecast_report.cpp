// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>

#include "plan/forecast_report.h"
#include "plan/plan_examples.h"
#include "support/error_text.h"

namespace litespark {
namespace {

RunForecast forecast_of_8b() {
  RunForecast forecast;
  forecast.hardware = hardware_named("h100");
  forecast.workload = test::llama_8b_workload();
  forecast.step = step_seconds(forecast.workload, litespark_software(), forecast.hardware);
  forecast.memory_bytes = 60e9;
  forecast.hours = 10;
  forecast.tokens = 1e9;
  forecast.energy = {.hours = 10, .gpus = 8, .busy_share = 0.9, .pue = 1.2, .grams_per_kwh = 369};
  forecast.energy.intensity_source = "a table of 2023";
  forecast.cost = energy_cost(forecast.energy, forecast.hardware);
  return forecast;
}

TEST(ForecastReport, TextShowsTimeMemoryEnergyCarbonAndMoney) {
  const std::string text = forecast_text(forecast_of_8b());
  for (const char* part : {"forecast for 8 x H100, dp 8", "matmul", "total", "MFU", "memory of a device", "kWh",
                           "369 g/kWh (a table of 2023)", "dollars", "modelled, not metered"}) {
    EXPECT_TRUE(contains(text, part));
  }
}

TEST(ForecastReport, WhatIsNotKnownIsNeverZero) {
  RunForecast forecast = forecast_of_8b();
  forecast.hardware.price_per_hour = 0;
  forecast.energy.grams_per_kwh = 0;
  forecast.energy.intensity_source = "";
  forecast.memory_bytes = 1e12;
  EXPECT_TRUE(contains(forecast_text(forecast), "n/a"));
  EXPECT_TRUE(contains(forecast_text(forecast), "DOES NOT FIT"));
  const std::string json = forecast_json(forecast);
  for (const char* part : {"\"rent_dollars\": null", "\"operation_kg_co2e\": null", "\"fits\": false"}) {
    EXPECT_TRUE(contains(json, part));
  }
  EXPECT_TRUE(contains(forecast_csv(forecast), ",no,"));
  EXPECT_TRUE(contains(forecast_csv(forecast), "n/a"));
}

TEST(ForecastReport, CostsHaveALineEachAndTheContractIsNamed) {
  RunForecast forecast = forecast_of_8b();
  EXPECT_TRUE(contains(forecast_text(forecast), "without end"));
  forecast.overhead_share = 0.5;
  forecast.energy.market_grams_per_kwh = 12;
  forecast.energy.market_source = "wind, 2026";
  forecast.energy.data_dollars = 1234;
  forecast.energy.label_dollars = 5678;
  forecast.cost = energy_cost(forecast.energy, forecast.hardware);
  const std::string text = forecast_text(forecast);
  for (const char* part : {"12 g/kWh (wind, 2026)", "1234 dollars", "5678 dollars", "5.00 h",
                           "electricity, if paid apart, in the currency of meter.price_per_kwh"})
    EXPECT_TRUE(contains(text, part)) << part;
  const std::string json = forecast_json(forecast);
  for (const char* part : {"\"market_kg_co2e\": ", "\"data\": 1234", "\"labels\": 5678", "\"overhead_share\": 0.5"})
    EXPECT_TRUE(contains(json, part)) << part;
}

TEST(ForecastReport, ALineHasAsManyCellsAsTheHead) {
  const auto cells = [](const std::string& line) { return std::count(line.begin(), line.end(), ','); };
  EXPECT_EQ(cells(forecast_csv(forecast_of_8b())), cells(forecast_csv_head()));
  RunForecast named = forecast_of_8b();
  named.hardware.name = "H200, \"141\" GB";
  EXPECT_TRUE(forecast_csv(named).starts_with("\"H200, \"\"141\"\" GB\",8,"));
}

}  // namespace
}  // namespace litespark
