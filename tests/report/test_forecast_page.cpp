// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "report/forecast_page.h"
#include "support/error_text.h"

namespace litespark::report {
namespace {

RunForecast small_forecast() {
  RunForecast forecast;
  forecast.hardware = hardware_named("h100");
  forecast.workload.shape = {.layers = 4,
                             .hidden = 512,
                             .heads = 8,
                             .kv_heads = 8,
                             .head_dim = 64,
                             .ffn = 2048,
                             .vocab = 32000,
                             .gated = true,
                             .tied = false,
                             .experts = {},
                             .latent = {}};
  forecast.workload.seq_len = 1024;
  forecast.step = step_seconds(forecast.workload, litespark_software(), forecast.hardware);
  forecast.memory_bytes = 1e9;
  forecast.hours = 10;
  forecast.tokens = 1e9;
  forecast.energy = {.hours = 10, .gpus = 1, .busy_share = 0.9, .pue = 1.2, .grams_per_kwh = 369};
  forecast.cost = energy_cost(forecast.energy, forecast.hardware);
  return forecast;
}

TEST(ForecastPage, ShowsMemoryStepScalingAndCost) {
  const RunForecast forecast = small_forecast();
  const std::string html = forecast_page(forecast, weak_scaling(forecast, 64), "a <run>");
  for (const char* part : {"<h1>a &lt;run&gt;</h1>", "Memory of a device", "One step", "matmul", "tokens/s a device",
                           "rent of devices", "All figures"}) {
    EXPECT_TRUE(contains(html, part));
  }
}

TEST(ForecastPage, ARunThatDoesNotFitIsSaidToBeSo) {
  RunForecast forecast = small_forecast();
  forecast.memory_bytes = 1e13;
  EXPECT_TRUE(contains(forecast_page(forecast, {}, "x"), "the run, which does not fit"));
}

}  // namespace
}  // namespace litespark::report
