// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "core/error.h"
#include "spec/run_config.h"
#include "support/error_text.h"

namespace litespark {
namespace {

void assign(RunConfig& config, const char* path, const char* text) {
  assign_text(*Fields::of(config).find(path), text, "test");
}

TEST(CostSection, TakesItsKeysAndKnowsNoContractUnlessToldOfOne) {
  RunConfig config;
  EXPECT_FALSE(config.cost.market_intensity.has_value());
  assign(config, "cost.market_intensity", "25");
  assign(config, "cost.market_source", "hydro, 2026");
  assign(config, "cost.labels", "1200.5");
  EXPECT_EQ(config.cost.market_intensity, 25.0);
  EXPECT_EQ(config.cost.market_source, "hydro, 2026");
  EXPECT_EQ(config.cost.labels, 1200.5);
}

TEST(CostSection, RefusesWhatCannotBe) {
  RunConfig config;
  for (const char* path : {"cost.market_intensity", "cost.data", "cost.lifetime_years", "cost.device_mtbf_hours"})
    EXPECT_TRUE(contains(error_text<ConfigError>([&] { assign(config, path, "-1"); }), path)) << path;
}

}  // namespace
}  // namespace litespark
