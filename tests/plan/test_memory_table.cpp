// SPDX-License-Identifier: Apache-2.0
// The table says what the plan holds: its sums are the plan's, and no stretch passes its phase.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "plan/memory_table.h"
#include "support/error_text.h"
#include "support/plain_sizes.h"

namespace litespark {
namespace {

Program small_program(bool has_training = true) {
  ModelConfig config;
  config.vocab_size = 96;
  config.hidden_size = 64;
  config.intermediate_size = 160;
  config.num_hidden_layers = 3;
  config.num_attention_heads = config.num_key_value_heads = 4;
  config.head_dim = 16;
  ProgramOptions options;
  options.batch = {.num_tokens = 128, .max_documents = 4, .max_length = 32, .uniform = true};
  options.head_chunk_rows = 32;
  options.accumulates = has_training;
  options.has_training = has_training;
  return make_llama_program(config, options, PlainSizes());
}

int64_t sum_of(const std::array<int64_t, kNumOwners>& bytes) {
  return std::accumulate(bytes.begin(), bytes.end(), int64_t{0});
}

const StretchPeak& stretch_of(const MemoryTable& table, const std::string& name) {
  const auto found = std::find_if(table.stretches.begin(), table.stretches.end(),
                                  [&](const StretchPeak& stretch) { return stretch.name == name; });
  if (found == table.stretches.end()) throw std::runtime_error("no stretch " + name);
  return *found;
}

TEST(MemoryTable, OwnersAddUpToThePlan) {
  const Program program = small_program();
  const MemoryTable table = make_memory_table(program);
  EXPECT_EQ(sum_of(table.persistent_by_owner), program.memory->persistent_bytes());
  EXPECT_EQ(table.total_bytes(), program.memory->total_bytes());
  for (const StretchPeak& stretch : table.stretches) EXPECT_EQ(sum_of(stretch.live_by_owner), stretch.live_bytes);
}

TEST(MemoryTable, WhatStandsBesideThePlanIsARowAndNoPartOfTheTotal) {
  MemoryTable table = make_memory_table(small_program());
  const int64_t total = table.total_bytes();
  table.beyond_plan_bytes = int64_t{3} << 20;
  EXPECT_TRUE(contains(format_memory_table(table), "beyond the plan, predicted"));
  EXPECT_TRUE(
      contains(memory_table_json(table), "\"beyond_plan\": {\"predicted_bytes\": 3145728, \"measured_bytes\": null}"));
  table.measured_beyond_plan_bytes = 4096;
  EXPECT_TRUE(contains(format_memory_table(table), "beyond the plan, measured"));
  EXPECT_TRUE(contains(memory_table_json(table), "\"measured_bytes\": 4096}"));
  EXPECT_EQ(table.total_bytes(), total);
}

TEST(MemoryTable, ForwardAndBackwardTogetherReachTheirPhasesPeak) {
  const Program program = small_program();
  const MemoryTable table = make_memory_table(program);
  for (const PhasePeak& phase : table.phases) {
    if (phase.phase != "train_first" && phase.phase != "train_next") continue;
    const int64_t forward = stretch_of(table, phase.phase + " forward").live_bytes;
    const int64_t backward = stretch_of(table, phase.phase + " backward").live_bytes;
    EXPECT_GT(forward, 0);
    EXPECT_EQ(std::max(forward, backward), phase.live_bytes);
  }
}

TEST(MemoryTable, PeaksAreBookedToTheRightSide) {
  const MemoryTable table = make_memory_table(small_program());
  EXPECT_EQ(stretch_of(table, "train_first forward").scope.substr(0, 7), "forward");
  EXPECT_GT(stretch_of(table, "train_first backward").live_bytes, 0);
  EXPECT_EQ(stretch_of(table, "eval").scope.substr(0, 7), "forward");
}

TEST(MemoryTable, AProgramWithoutTrainingHasNoBackward) {
  const MemoryTable table = make_memory_table(small_program(false));
  for (const StretchPeak& stretch : table.stretches) EXPECT_EQ(stretch.name.find("backward"), std::string::npos);
  EXPECT_EQ(table.persistent_by_owner[static_cast<size_t>(Owner::kGradients)], 0);
}

TEST(MemoryTable, TextShowsOwnersPhasesAndTotal) {
  const MemoryTable table = make_memory_table(small_program());
  const std::string text = format_memory_table(table);
  for (const char* part : {"activations", "optimizer", "train_first backward", "train_next forward", "sum", "total",
                           "library sizes exact"}) {
    EXPECT_TRUE(contains(text, part));
  }
  EXPECT_EQ(text.find("kv cache"), std::string::npos);
}

TEST(MemoryTable, EstimatesAreMarked) {
  MemoryTable table = make_memory_table(small_program());
  table.is_exact = false;
  EXPECT_TRUE(contains(format_memory_table(table), "library sizes estimated"));
  EXPECT_TRUE(contains(memory_table_json(table), "\"exact\": false"));
}

TEST(MemoryTable, JsonHoldsTheSameBytes) {
  const MemoryTable table = make_memory_table(small_program());
  const std::string json = memory_table_json(table);
  EXPECT_TRUE(contains(json, "\"total_bytes\": " + std::to_string(table.total_bytes()) + ","));
  EXPECT_TRUE(contains(json, "\"arena_bytes\": " + std::to_string(table.arena_bytes) + ","));
  for (const StretchPeak& stretch : table.stretches) {
    EXPECT_TRUE(
        contains(json, "{\"name\": \"" + stretch.name + "\", \"live_bytes\": " + std::to_string(stretch.live_bytes)));
  }
}

TEST(MemoryTable, PinnedHostMemoryIsARowOfItsOwn) {
  MemoryTable table = make_memory_table(small_program());
  EXPECT_EQ(format_memory_table(table).find("pinned"), std::string::npos);
  const int64_t total = table.total_bytes();
  table.host_bytes = 3 << 20;
  EXPECT_EQ(table.total_bytes(), total);
  EXPECT_TRUE(contains(format_memory_table(table), "pinned host memory 3.0 MiB: offloaded activations"));
  EXPECT_TRUE(contains(memory_table_json(table), "\"host_bytes\": 3145728,"));
}

TEST(MemoryTable, AProgramWithoutAPlanIsABug) {
  EXPECT_THROW(make_memory_table(Program{}), InternalError);
}

}  // namespace
}  // namespace litespark
