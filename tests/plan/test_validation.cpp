// SPDX-License-Identifier: Apache-2.0
// Held to what the planner promises, over published runs of several programs (tests/golden/planner/rows.csv).
#include <gtest/gtest.h>

#include "plan/validation.h"
#include "support/temporary_folder.h"

namespace litespark {
namespace {

const ValidationFile& published() {
  static const ValidationFile file = read_validation_rows(
      test::file_text(std::string(LITESPARK_SOURCE_DIR) + "/tests/golden/planner/rows.csv"), "rows.csv");
  return file;
}

TEST(Validation, StepTimesOfPublishedRunsArePredictedWithinThePromise) {
  const ErrorSummary time = validate(published(), ValidationFit::kScalar, nullptr).summary(ValidationGroup::kStepTime);
  EXPECT_GT(time.n, 40);
  EXPECT_LE(time.excluded, 0.15 * static_cast<double>(time.n + time.excluded));
  EXPECT_LT(time.median_abs_error_percent, 5);
  EXPECT_LT(time.p90_abs_error_percent, 12);
}

TEST(Validation, MemoryOfPublishedRunsIsPredictedAndNeverFarUnder) {
  const ErrorSummary memory = validate(published(), ValidationFit::kNone, nullptr).summary(ValidationGroup::kMemory);
  EXPECT_GT(memory.n, 15);
  EXPECT_EQ(memory.excluded, 0);
  EXPECT_LT(memory.median_abs_error_percent, 2);
  EXPECT_LT(memory.p90_abs_error_percent, 5);
  EXPECT_GT(memory.most_under_percent, -2);
}

TEST(Validation, DataSheetsAloneKeepThePromiseToo) {
  const ErrorSummary time = validate(published(), ValidationFit::kNone, nullptr).summary(ValidationGroup::kStepTime);
  EXPECT_LT(time.median_abs_error_percent, 7);
  EXPECT_LT(time.p90_abs_error_percent, 15);
}

TEST(Validation, AFactorIsTheMedianOfOneNodeRowsOrOfAll) {
  const SlownessByDevice one_node = fit_slowness(published(), false);
  EXPECT_TRUE(one_node.contains("H100") && one_node.contains("A100"));
  EXPECT_FALSE(one_node.contains("GB200"));  // its only rows span nodes
  EXPECT_TRUE(fit_slowness(published(), true).contains("GB200"));
}

TEST(Validation, HeldOutSourcesArePredictedFromTheOthers) {
  // Each source is predicted with factors of the rest: nothing was learnt from it.
  std::vector<double> errors;
  std::vector<std::string> sources;
  for (const auto& [source, groups] : validate(published(), ValidationFit::kNone, nullptr).per_source()) {
    sources.push_back(source);
  }
  for (const std::string& source : sources) {
    ValidationFile held_out;
    ValidationFile rest;
    for (const ValidationRow& row : published().rows) (row.source == source ? held_out : rest).rows.push_back(row);
    for (const RowPrediction& p : validate(held_out, ValidationFit::kScalar, &rest).predictions) {
      if (p.exclusion.empty() && p.group == ValidationGroup::kStepTime) errors.push_back(std::abs(p.error_percent()));
    }
  }
  EXPECT_LT(quantile(errors, 0.5), 7);
  EXPECT_LT(quantile(errors, 0.9), 15);
}

TEST(Validation, FactorsComeFromTheOtherFileWhenThereIsOne) {
  ValidationFile none;
  EXPECT_TRUE(validate(published(), ValidationFit::kScalar, &none).slowness.empty());
  EXPECT_TRUE(validate(published(), ValidationFit::kNone, nullptr).slowness.empty());
}

TEST(Validation, MetricsAreSortedIntoGroups) {
  const auto group = [](const char* metric) {
    ValidationRow row;
    row.metric = metric;
    return group_name(group_of(row));
  };
  EXPECT_EQ(group("hw_tflops_per_gpu"), "step_time");
  EXPECT_EQ(group("tokens_per_s_per_gpu"), "step_time");
  EXPECT_EQ(group("mem_activations_per_gpu"), "memory");
  EXPECT_EQ(group("peak_memory"), "memory");
  EXPECT_EQ(group("busbw@1MiB"), "bandwidth");
  EXPECT_EQ(group("max_node_power"), "energy");
  EXPECT_EQ(group("mfu"), "other");
}

TEST(Validation, QuantilesInterpolate) {
  EXPECT_EQ(quantile({}, 0.5), 0);
  EXPECT_EQ(quantile({3, 1, 2}, 0.5), 2);
  EXPECT_DOUBLE_EQ(quantile({0, 10}, 0.9), 9);
}

}  // namespace
}  // namespace litespark
