// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "plan/row_words.h"
#include "support/temporary_folder.h"

namespace litespark {
namespace {

ValidationRow row_of(const std::string& metric, const std::string& unit) {
  ValidationRow row;
  row.metric = metric;
  row.unit = unit;
  return row;
}

TEST(RowWords, AUnitMustBeOneThatTheMetricIsPredictedIn) {
  struct Case {
    const char* metric;
    const char* known;
    const char* unknown;
  };
  for (const Case& each :
       {Case{"iteration_time", "MS", "furlongs"}, Case{"tokens_per_s_per_gpu", "token/s", "ktoken/s"},
        Case{"hw_tflops_per_gpu", "TFLOP/s", "GFLOP/s"}, Case{"throughput_iteration", "TFLOP/s", "GFLOP/s"},
        Case{"samples_per_s", "samples/s", "s"}, Case{"peak_memory", "MiB", "TiB"},
        Case{"mem_activations_rel_to_TP_baseline", "%", "GiB"}, Case{"busbw@1GiB", "GB/s", "Gbit/s"},
        Case{"max_node_power", "kW", "kWh"}, Case{"emissions_location_based", "tCO2e", "kg"},
        Case{"energy", "MWh", "J"}, Case{"mfu", "%", "share"}, Case{"layer_fwd_bwd_time", "us", "ns"}}) {
    EXPECT_FALSE(unknown_word(row_of(each.metric, each.known))) << each.metric;
    EXPECT_FALSE(unknown_word(row_of(each.metric, ""))) << each.metric;
    const auto word = unknown_word(row_of(each.metric, each.unknown));
    ASSERT_TRUE(word) << each.metric;
    EXPECT_STREQ(word->column, "unit");
    EXPECT_EQ(word->cell, each.unknown);
    EXPECT_TRUE(word->expected.starts_with("one of ")) << word->expected;
  }
  EXPECT_FALSE(unknown_word(row_of("gpu_hours", "whatever"))) << "is never predicted";
}

TEST(RowWords, PrecisionAndRecomputeHoldAWordThatDecidesThePrediction) {
  ValidationRow row = row_of("iteration_time", "s");
  for (const char* known : {"", "bf16", "AMP_BF16", "fp8 or bf16 (not stated)"}) {
    row.precision = known;
    EXPECT_FALSE(unknown_word(row)) << known;
  }
  row.precision = "int3";
  EXPECT_STREQ(unknown_word(row).value().column, "precision");
  row.precision = "";
  for (const char* known : {"", "none+SP", "Selective (op-level)", "full", "any"}) {
    row.recompute = known;
    EXPECT_FALSE(unknown_word(row)) << known;
  }
  row.recompute = "sometimes";
  EXPECT_STREQ(unknown_word(row).value().column, "recompute");
  EXPECT_EQ(unknown_word(row).value().cell, "sometimes");
}

TEST(RowWords, PublishedRowsAreAllUnderstood) {
  const ValidationFile file = read_validation_rows(
      test::file_text(std::string(LITESPARK_SOURCE_DIR) + "/tests/golden/planner/rows.csv"), "rows.csv");
  EXPECT_FALSE(file.rows.empty());
  for (const ValidationRow& row : file.rows) EXPECT_EQ(row.defect, "");
}

}  // namespace
}  // namespace litespark
