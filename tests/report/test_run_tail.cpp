// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "core/error.h"
#include "report/run_tail.h"
#include "support/error_text.h"
#include "support/temporary_folder.h"

namespace litespark::report {
namespace {

std::string step_line(int64_t step) {
  return "{\"step\": " + std::to_string(step) + ", \"tokens\": " + std::to_string(step * 100) +
         ", \"loss\": 2.5, \"tokens_per_second\": 50.0, \"mfu\": null, \"data_wait_seconds\": 0.5, \"skipped\": "
         "false}\n";
}

class RunTailTest : public testing::Test {
 protected:
  RunTailTest() {
    folder_.write("run.toml",
                  "[model]\nvocab_size = 64\nhidden_size = 32\nintermediate_size = 64\n"
                  "num_hidden_layers = 1\nnum_attention_heads = 2\n"
                  "[data]\nsource = \"synthetic\"\n[train]\nsteps = 1000\n");
  }
  void write_steps(int64_t count, const std::string& rest) const {
    std::string text;
    for (int64_t step = 1; step <= count; ++step) text += step_line(step);
    folder_.write("metrics.jsonl", text + rest);
  }

  const test::TemporaryFolder folder_;
};

TEST_F(RunTailTest, TheEndOfALongLogTellsWhereTheRunStands) {
  write_steps(900,
              "{\"step\": 900, \"eval_loss\": 2.25, \"eval_tokens\": 7}\n"
              "{\"step\": 900, \"warning\": \"grows\"}\n{\"step\": 900, \"checkpoint_seconds\": 0.1}\n");
  const RunTail tail = read_run_tail(folder_.path(), 2000);
  EXPECT_EQ(tail.total_steps, 1000);
  EXPECT_EQ(tail.last_step->step, 900);
  EXPECT_EQ(tail.last_eval->loss, 2.25);
  EXPECT_EQ(tail.last_warning->text, "grows");
  EXPECT_DOUBLE_EQ(tail.step_seconds.value(), 2.0);
  EXPECT_DOUBLE_EQ(tail.seconds_left().value(), 200.0);
  EXPECT_DOUBLE_EQ(tail.data_wait_share().value(), 0.25);
  EXPECT_GE(tail.seconds_since_update.value(), 0.0);
}

TEST_F(RunTailTest, ALineThatIsBeingWrittenWaitsAndABrokenOneIsLeftOut) {
  write_steps(3, "rubbish\n" + step_line(4) + "{\"step\": 5, \"loss\": 1");
  const RunTail tail = read_run_tail(folder_.path());
  EXPECT_EQ(tail.last_step->step, 4);
}

TEST_F(RunTailTest, ARunBeforeItsFirstStepIsARun) {
  const RunTail tail = read_run_tail(folder_.path());
  EXPECT_FALSE(tail.last_step);
  EXPECT_FALSE(tail.seconds_left());
  EXPECT_FALSE(tail.seconds_since_update);
}

TEST_F(RunTailTest, EachDeviceHasItsNewestEnergy) {
  folder_.write(
      "energy.jsonl",
      "{\"step\": 1, \"seconds\": 1.0, \"joules\": 5.0, \"watts\": 5.0, \"method\": \"counter\", \"device\": \"cpu\"}\n"
      "{\"step\": 2, \"seconds\": 1.0, \"joules\": 6.0, \"watts\": 6.0, \"method\": \"counter\", \"device\": "
      "\"cpu\"}\n");
  const RunTail tail = read_run_tail(folder_.path());
  ASSERT_EQ(tail.energy.size(), 1u);
  EXPECT_EQ(tail.energy.front().watts, 6.0);
}

TEST_F(RunTailTest, ARunFileOfAnotherVersionOnlyCostsTheTotal) {
  folder_.write("run.toml", "[train]\nsteps = 1000\nsome_key_of_tomorrow = 1\n");
  write_steps(2, "");
  const RunTail tail = read_run_tail(folder_.path());
  EXPECT_FALSE(tail.total_steps);
  EXPECT_EQ(tail.last_step->step, 2);
}

TEST(RunTail, AFolderThatIsNoRunIsRefused) {
  const test::TemporaryFolder folder;
  EXPECT_TRUE(contains(error_text<DataError>([&] { read_run_tail(folder.path()); }), "is not a run folder"));
}

}  // namespace
}  // namespace litespark::report
