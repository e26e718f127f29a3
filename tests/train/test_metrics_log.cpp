// SPDX-License-Identifier: Apache-2.0
// Every step stands in the log once, whatever crash and resume lie between.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cmath>
#include <csignal>

#include "core/error.h"
#include "support/error_text.h"
#include "support/temporary_folder.h"
#include "train/metrics_log.h"

namespace litespark {
namespace {

class MetricsLogTest : public testing::Test {
 protected:
  static StepRecord record(int64_t step) {
    return {.step = step, .tokens = step * 100, .loss = 2.5, .grad_norm = 1.0, .lr = 0.125, .seconds = 0.5};
  }
  std::string text() const { return test::file_text(path_); }

  const test::TemporaryFolder folder_;
  const std::filesystem::path path_ = folder_.path() / "metrics.jsonl";
};

TEST_F(MetricsLogTest, ALineHasTheDocumentedKeysInOrder) {
  EXPECT_EQ(step_json(record(3), 100, {.watts = 12.5}),
            "{\"step\": 3, \"tokens\": 300, \"loss\": 2.5, \"grad_norm\": 1.0, \"lr\": 0.125, "
            "\"tokens_per_second\": 200.0, \"mfu\": null, \"watts\": 12.5, \"joules\": null, \"co2_grams\": null, "
            "\"data_wait_seconds\": 0.0, \"skipped\": false}");
}

TEST_F(MetricsLogTest, StepsOnEightBitsSayWhatThatLost) {
  StepRecord step = record(3);
  step.fp8 = Fp8Losses{.overflows = 2, .inputs_flushed = 0.25, .gradients_flushed = 0.5};
  EXPECT_TRUE(contains(step_json(step, 100, {}),
                       "\"skipped\": false, \"fp8_overflows\": 2, \"fp8_inputs_flushed\": 0.25, "
                       "\"fp8_gradients_flushed\": 0.5}"));
}

TEST_F(MetricsLogTest, AStepOfSeveralRanksNamesTheSlowest) {
  StepRecord step = record(3);
  step.rank_seconds = {0.25, 1.5, 0.5};
  EXPECT_TRUE(contains(step_json(step, 100, {}),
                       "\"skipped\": false, \"rank_seconds_median\": 0.5, \"rank_seconds_slowest\": 1.5, "
                       "\"slowest_rank\": 1}"));
}

TEST_F(MetricsLogTest, AStepBehindASynchronisationSaysHowFarCopiesWere) {
  StepRecord step = record(3);
  step.copy_drift = 0.25;
  EXPECT_TRUE(contains(step_json(step, 100, {}), "\"skipped\": false, \"copy_drift\": 0.25}"));
}

TEST_F(MetricsLogTest, WhatIsNotFiniteIsNull) {
  StepRecord bad = record(1);
  bad.loss = std::nan("");
  bad.skipped = true;
  const std::string line = step_json(bad, 100, {});
  EXPECT_TRUE(contains(line, "\"loss\": null"));
  EXPECT_TRUE(contains(line, "\"skipped\": true"));
}

TEST_F(MetricsLogTest, AResumeDropsTheStepsItTakesAgain) {
  {
    MetricsLog log(path_, 0);
    for (int64_t step = 1; step <= 5; ++step) log.add(record(step));
    log.add_eval(5, {.loss = 2.0, .supervised_tokens = 7});
  }
  std::string expected = text().substr(0, text().find("{\"step\": 4"));
  {
    MetricsLog log(path_, 3);
    EXPECT_EQ(text(), expected);
    log.add(record(4));
  }
  EXPECT_EQ(text(), expected + step_json(record(4), 100, {}) + "\n");
}

TEST_F(MetricsLogTest, ATornLastLineIsDropped) {
  {
    MetricsLog log(path_, 0);
    log.add(record(1));
  }
  const std::string whole = text();
  std::ofstream(path_, std::ios::app) << "{\"step\": 2, \"tokens\": 2";
  const MetricsLog log(path_, 2);
  EXPECT_EQ(text(), whole);
}

TEST_F(MetricsLogTest, AFreshRunStartsAFreshLog) {
  {
    MetricsLog log(path_, 0);
    log.add(record(1));
  }
  const MetricsLog log(path_, 0);
  EXPECT_EQ(text(), "");
}

TEST_F(MetricsLogTest, EvaluationsHaveTheirOwnLines) {
  MetricsLog log(path_, 0);
  log.add_eval(4, {.loss = 2.25, .supervised_tokens = 7, .seconds = 0.5});
  EXPECT_EQ(text(), "{\"step\": 4, \"eval_loss\": 2.25, \"eval_tokens\": 7, \"eval_seconds\": 0.5}\n");
}

TEST_F(MetricsLogTest, SavesAndWarningsHaveTheirOwnLines) {
  MetricsLog log(path_, 0);
  log.add_save(4, 0.25);
  log.add_warning(5, "a \"leak\"");
  EXPECT_EQ(text(), "{\"step\": 4, \"checkpoint_seconds\": 0.25}\n{\"step\": 5, \"warning\": \"a \\\"leak\\\"\"}\n");
}

TEST_F(MetricsLogTest, AFolderInItsPlaceIsAnError) {
  EXPECT_ANY_THROW(MetricsLog(folder_.path(), 0));
}

TEST_F(MetricsLogTest, AFullDiskIsAStorageError) {
  MetricsLog log(path_, 0);
  log.add(record(1));
  // A limit on the file's size stands in for the disk's end.
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{.rlim_cur = text().size() + 10, .rlim_max = before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  EXPECT_THROW(log.add(record(2)), IoError);
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
}

}  // namespace
}  // namespace litespark
