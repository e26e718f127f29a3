// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "core/error.h"
#include "plan/width_table.h"
#include "support/error_text.h"

namespace litespark {
namespace {

WidthTable sample() {
  return {.device = "a device",
          .compute = "bf16",
          .rows = 100,
          .hidden = 10,
          .widths = {900, 1000, 1024, 1280},
          .seconds = {0.9, 1.2, 1.0, 1.3}};
}

TEST(WidthTable, CountsPaddingAsWaste) {
  const auto advice = advise_width(sample(), 1000);
  ASSERT_TRUE(advice);
  ASSERT_EQ(advice->choices.size(), 4u);
  const WidthChoice& padded = advice->choices[2];
  EXPECT_DOUBLE_EQ(padded.flops_per_second, 6.0 * 100 * 10 * 1024 / 1.0);
  EXPECT_DOUBLE_EQ(padded.useful_flops_per_second, 6.0 * 100 * 10 * 1000 / 1.0);
  EXPECT_NEAR(padded.slower, -1.0 / 6, 1e-12);
  EXPECT_EQ(advice->best.width, 1024);
}

TEST(WidthTable, NeverTakesANarrowerWidthNorOneThatIsOnlyFasterWithinTheNoise) {
  WidthTable table = sample();
  table.seconds = {0.1, 1.0, 0.99, 1.3};
  const auto advice = advise_width(table, 1000);
  ASSERT_TRUE(advice);
  EXPECT_EQ(advice->best.width, 1000);
  EXPECT_TRUE(contains(width_verdict(*advice), "keep 1000"));
}

TEST(WidthTable, SaysWhatToTake) {
  const WidthTable table = sample();
  const std::string text = width_text(table, *advise_width(table, 1000));
  EXPECT_TRUE(contains(text, "take 1024")) << text;
  EXPECT_TRUE(contains(text, "16.7 % less time")) << text;
  EXPECT_TRUE(contains(text, "a device (bf16, 100 tokens, hidden size 10)")) << text;
}

TEST(WidthTable, HasNoAnswerForAWidthThatWasNotMeasured) {
  EXPECT_FALSE(advise_width(sample(), 1001));
}

TEST(WidthTable, RefusesListsOfDifferentLengths) {
  WidthTable table = sample();
  EXPECT_NO_THROW(table.validate());
  table.seconds.pop_back();
  EXPECT_THROW(table.validate(), ConfigError);
}

TEST(WidthTable, FiguresThatWouldPassEveryNumberAreOutOfRange) {
  WidthTable table = sample();
  const Fields fields = Fields::of(table);
  const auto refused = [&](const char* path, double value) {
    return error_text<ConfigError>(
        [&] { assign(*fields.find(path), std::vector<double>{value}, "widths.toml line 2"); });
  };
  for (const double value : {1e-320, 1e300}) {
    EXPECT_TRUE(contains(refused("seconds", value), "[widths.toml line 2: seconds] out of range"));
    EXPECT_TRUE(contains(refused("widths", value), "[widths.toml line 2: widths] out of range"));
  }
}

TEST(WidthTable, WhatDoesNotBelongTogetherIsRefusedWithItsFile) {
  WidthTable table = sample();
  table.seconds.pop_back();
  EXPECT_TRUE(contains(error_text<ConfigError>([&] { table.validate("widths.toml"); }),
                       "[widths.toml: seconds] must have one entry a width"));
}

}  // namespace
}  // namespace litespark
