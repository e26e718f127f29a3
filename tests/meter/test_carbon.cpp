// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "core/error.h"
#include "meter/carbon.h"
#include "support/error_text.h"

namespace litespark {
namespace {

TEST(Carbon, PowerTimesTimeIsTheEnergy) {  // report:B44
  const double joules = 400.0 * 9 * 3600;  // 400 W for nine hours
  EXPECT_DOUBLE_EQ(footprint(joules, {.grams_per_kwh = 100}).machine_kwh, 3.6);
}

TEST(Carbon, OverheadStandsBesideTheRawValue) {  // report:B44
  const Footprint result = footprint(2 * kJoulesPerKwh, {.grams_per_kwh = 100, .pue = 1.5});
  EXPECT_DOUBLE_EQ(result.machine_kwh, 2.0);
  EXPECT_DOUBLE_EQ(result.building_kwh, 3.0);
  EXPECT_DOUBLE_EQ(result.machine_grams, 200.0);
  EXPECT_DOUBLE_EQ(result.building_grams, 300.0);
}

TEST(Carbon, AFrenchKilowattHourIsAboutFiftyGrams) {  // report:B44
  const GridIntensity grid = grid_intensity("FR", std::nullopt);
  EXPECT_NEAR(grid.grams_per_kwh, 50.0, 15.0);
  EXPECT_EQ(grid.country, "France");
  EXPECT_EQ(grid.iso_code, "FRA");
  EXPECT_TRUE(contains(grid.source, "2024"));
  EXPECT_DOUBLE_EQ(footprint(kJoulesPerKwh, {.grams_per_kwh = grid.grams_per_kwh}).machine_grams, grid.grams_per_kwh);
}

TEST(Carbon, TheTableIsEmbersYear2024) {  // report:B44
  const auto grams = [](const char* region) { return grid_intensity(region, std::nullopt).grams_per_kwh; };
  EXPECT_EQ(grams("US"), 384.0);
  EXPECT_EQ(grams("EU"), 213.0);
  EXPECT_EQ(grams("DE"), 342.0);
  EXPECT_EQ(grams("IN"), 709.0);
  EXPECT_EQ(grams("WORLD"), 473.0);
}

TEST(Carbon, EveryRegionLiesBetweenWaterAndLignite) {
  for (const char* region : {"US", "EU", "DE", "FR", "GB", "CN", "IN", "WORLD", "NO", "PL"}) {
    const double grams = grid_intensity(region, std::nullopt).grams_per_kwh;
    EXPECT_GT(grams, 10.0) << region;
    EXPECT_LT(grams, 1100.0) << region;
  }
}

TEST(Carbon, AnUnknownRegionIsRefusedByName) {  // report:B44
  const std::string text = error_text<ConfigError>([] { (void)grid_intensity("ATLANTIS", std::nullopt); });
  EXPECT_TRUE(contains(text, "\"ATLANTIS\""));
  EXPECT_TRUE(contains(text, "WORLD"));
}

TEST(Carbon, TheUsersNumberGoesFirst) {
  const GridIntensity grid = grid_intensity("ATLANTIS", 12.5);
  EXPECT_EQ(grid.grams_per_kwh, 12.5);
  EXPECT_EQ(grid.source, "meter.grid_intensity");
}

TEST(Carbon, MoneyNeedsAPrice) {
  EXPECT_EQ(footprint(kJoulesPerKwh, {}).cost, std::nullopt);
  EXPECT_DOUBLE_EQ(footprint(kJoulesPerKwh, {.pue = 1.5, .price_per_kwh = 0.2}).cost.value(), 0.3);
}

}  // namespace
}  // namespace litespark
