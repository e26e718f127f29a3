// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "plan/plan_examples.h"
#include "plan/run_advice.h"
#include "support/error_text.h"

namespace litespark {
namespace {

RunForecast forecast_of_8b() {
  RunForecast forecast;
  forecast.hardware = hardware_named("h100");
  forecast.workload = test::llama_8b_workload();
  forecast.step = step_seconds(forecast.workload, litespark_software(), forecast.hardware);
  return forecast;
}

Advice advice_on(const std::string& key, const RunConfig& config, const RunForecast& forecast) {
  for (const Advice& advice : run_advice(config, forecast)) {
    if (advice.key == key) return advice;
  }
  ADD_FAILURE() << "no advice on " << key;
  return {};
}

TEST(RunAdvice, WarmUpIsWhatTheSecondMomentNeeds) {
  RunConfig config;
  config.train.steps = 10000;
  config.optim.betas = {0.9, 0.999};
  config.schedule.warmup = 0;
  EXPECT_EQ(advice_on("schedule.warmup", config, forecast_of_8b()).advised, "2000");
  config.optim.betas = {0.9, 0.95};
  config.schedule.warmup = 2000;
  EXPECT_EQ(advice_on("schedule.warmup", config, forecast_of_8b()).advised, "200");
  config.schedule.warmup = 200;
  EXPECT_EQ(advice_on("schedule.warmup", config, forecast_of_8b()).advised, "");
}

TEST(RunAdvice, AMeasuredWidthCountsMoreThanTheUsualTile) {
  RunConfig config;
  config.cluster.tp = 2;
  RunForecast forecast = forecast_of_8b();
  forecast.workload.shape.ffn = 2000;
  const WidthTable table{.device = "x", .rows = 8, .hidden = 8, .widths = {1000, 1024}, .seconds = {2, 1}};
  const auto widths = advise_width(table, 1000);
  for (const Advice& advice : run_advice(config, forecast, &*widths)) {
    if (advice.key != "model.intermediate_size") continue;
    EXPECT_EQ(advice.found, "2000");
    EXPECT_EQ(advice.advised, "2048");
    EXPECT_TRUE(contains(advice.reason, "50.0 % less time"));
    return;
  }
  FAIL() << "no advice on the width";
}

TEST(RunAdvice, AWidthThatTilesDoNotDivideIsNamed) {
  RunForecast forecast = forecast_of_8b();
  EXPECT_EQ(advice_on("model.intermediate_size", {}, forecast).advised, "");
  forecast.workload.shape.ffn = 14336 + 128;
  EXPECT_EQ(advice_on("model.intermediate_size", {}, forecast).advised, "");  // under 1 % of it is empty
  forecast.workload.shape.ffn = 5504;
  EXPECT_EQ(advice_on("model.intermediate_size", {}, forecast).advised, "5632");
}

TEST(RunAdvice, MoreDevicesSaveMoreOften) {
  RunConfig config;
  config.train.steps = 1000000;
  RunForecast forecast = forecast_of_8b();
  const int64_t few = std::stoll(advice_on("checkpoint.every", config, forecast).advised);
  forecast.workload.layout.dp = 4096;
  EXPECT_LT(std::stoll(advice_on("checkpoint.every", config, forecast).advised), few);
}

TEST(RunAdvice, EveryAdviceHasItsReason) {
  for (const Advice& advice : run_advice({}, forecast_of_8b())) EXPECT_GT(advice.reason.size(), 40u) << advice.key;
  EXPECT_TRUE(contains(advice_text(run_advice({}, forecast_of_8b())), "optim.clip_norm = 1.00, as it is"));
}

}  // namespace
}  // namespace litespark
