// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/error.h"
#include "train/checkpoint_state.h"

namespace litespark {
namespace {

CheckpointState sample_state() {
  return {.progress = {.steps_done = 7,
                       .tokens_done = int64_t{3} << 40,  // fault:C15
                       .skipped_in_a_row = 1,
                       .optimizer_steps = 6,
                       .skipped_steps = 1,
                       .recent_norms = {0.1, 1.0 / 3.0, std::numeric_limits<double>::infinity()}},
          .totals = {.joules = 0.3, .metered_seconds = 0.7, .unmetered_seconds = 0.9, .train_seconds = 0.1},
          .identity = {{"seed", "1"}},
          .tuning = {{"a", "b"}},
          .folder_dtype = DType::kBF16};
}

TEST(CheckpointState, ReadsBackBitForBit) {  // fault:C15
  const CheckpointState state = sample_state();
  const CheckpointState back = parse_checkpoint_state(checkpoint_state_json(state), "state.json");
  EXPECT_EQ(back.progress.steps_done, 7);
  EXPECT_EQ(back.progress.tokens_done, int64_t{3} << 40);
  EXPECT_EQ(back.progress.recent_norms, state.progress.recent_norms);
  EXPECT_EQ(back.totals, state.totals);
  EXPECT_EQ(back.identity, state.identity);
  EXPECT_EQ(back.tuning, state.tuning);
  EXPECT_EQ(back.folder_dtype, DType::kBF16);
}

TEST(CheckpointState, HasNoDefaultForAnyField) {  // fault:C6
  const std::string text = checkpoint_state_json(sample_state());
  int fields = 0;
  for (size_t at = text.find("\n \""); at != std::string::npos; at = text.find("\n \"", at + 1)) {
    std::string without = text;
    without.insert(at + 3, "x");  // the field gets another name
    EXPECT_THROW(parse_checkpoint_state(without, "state.json"), DataError) << without.substr(at, 30);
    ++fields;
  }
  EXPECT_EQ(fields, 14);
}

TEST(CheckpointState, RefusesAMissingSeedByName) {  // fault:C6
  CheckpointState state = sample_state();
  state.identity = {{"data", "x"}};
  try {
    parse_checkpoint_state(checkpoint_state_json(state), "state.json");
    FAIL();
  } catch (const DataError& error) {
    EXPECT_NE(std::string(error.what()).find("seed"), std::string::npos);
  }
}

TEST(CheckpointState, RefusesNegativeCountersAndMalformedNumbers) {
  CheckpointState state = sample_state();
  state.progress.steps_done = -1;
  EXPECT_THROW(parse_checkpoint_state(checkpoint_state_json(state), "state.json"), DataError);
  EXPECT_THROW(parse_checkpoint_state("[]", "state.json"), DataError);
  EXPECT_THROW(parse_checkpoint_state("{", "state.json"), DataError);
}

}  // namespace
}  // namespace litespark
