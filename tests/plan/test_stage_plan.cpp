// SPDX-License-Identifier: Apache-2.0
// The memory of pipeline stages: each as its own program has it, and the fullest decides.
#include <gtest/gtest.h>

#include <algorithm>

#include "plan/memory_table.h"
#include "plan/stage_plan.h"
#include "support/error_text.h"
#include "support/plain_sizes.h"
#include "support/tape_reader.h"

namespace litespark {
namespace {

ProgramOptions options_of(int64_t stages, int64_t micro_batches) {
  ProgramOptions options = test::small_options();
  options.stages = stages;
  options.micro_batches = micro_batches;
  options.accumulates = micro_batches > 1;
  return options;
}

TEST(StagePlan, HasEachStageAsItsOwnProgramHasIt) {
  const StagePlan plan = plan_stages(test::small_config(), options_of(3, 4), PlainSizes());
  ASSERT_EQ(plan.stages.size(), 3u);
  int64_t most = 0;
  for (int64_t stage = 0; stage < 3; ++stage) {
    ProgramOptions options = options_of(3, 4);
    options.stage = stage;
    const Program program = make_llama_program(test::small_config(), options, PlainSizes());
    const StageMemory& memory = plan.stages[static_cast<size_t>(stage)];
    EXPECT_EQ(memory.total_bytes(), program.memory->total_bytes());
    EXPECT_EQ(memory.persistent_bytes, program.memory->persistent_bytes());
    EXPECT_EQ(memory.layers.front().first, program.layers.front().first);
    EXPECT_EQ(memory.in_flight, 3 - stage);
    most = std::max(most, memory.total_bytes());
  }
  EXPECT_EQ(plan.stages[plan.fullest].total_bytes(), most);
  EXPECT_EQ(plan.program.memory->total_bytes(), most);
  EXPECT_EQ(plan.program.options.stage, static_cast<int64_t>(plan.fullest));
}

TEST(StagePlan, TheMemoryTableHasAStepInOneStretch) {
  const MemoryTable table =
      make_memory_table(plan_stages(test::small_config(), options_of(3, 4), PlainSizes()).program);
  std::vector<std::string> names;
  for (const StretchPeak& stretch : table.stretches) names.push_back(stretch.name);
  EXPECT_NE(std::find(names.begin(), names.end(), "train_step"), names.end());
  EXPECT_EQ(std::find(names.begin(), names.end(), "train_step forward"), names.end());
}

TEST(StagePlan, IsATableOfStagesAndNothingWithOne) {
  const StagePlan three = plan_stages(test::small_config(), options_of(3, 2), PlainSizes());
  const std::string text = stages_text(three);
  for (const char* part : {"pipeline stage", "0 to 0", "2 to 2", "the fullest"}) EXPECT_TRUE(contains(text, part));
  EXPECT_TRUE(contains(stages_json(three), "{\"layers\": [[1, 1]], \"in_flight\": 2, "));
  const StagePlan one = plan_stages(test::small_config(), options_of(1, 2), PlainSizes());
  EXPECT_EQ(stages_text(one), "");
  EXPECT_EQ(one.stages.size(), 1u);
}

}  // namespace
}  // namespace litespark
