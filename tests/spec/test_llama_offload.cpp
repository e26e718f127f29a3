// SPDX-License-Identifier: Apache-2.0
// Every block's input but the last goes out once and comes back once, and the device holds few of them at a time.
#include <gtest/gtest.h>

#include <map>

#include "support/plain_sizes.h"
#include "support/tape_reader.h"

namespace litespark {
namespace {

using test::ops_of;
using test::small_config;
using test::small_options;

Program program_with(bool offloads, int64_t num_layers = 3) {
  ModelConfig config = small_config();
  config.num_hidden_layers = num_layers;
  ProgramOptions options = small_options();
  options.recompute = Recompute::kBlock;
  options.accumulates = true;
  options.offloads_activations = offloads;
  return make_llama_program(config, options, PlainSizes());
}

TEST(LlamaOffload, EveryInputButTheLastGoesOutAndComesBackBetweenTheRightOps) {
  const Program program = program_with(true, 4);
  for (const Phase phase : {Phase::kTrainFirst, Phase::kTrainNext}) {
    std::vector<std::string> events;
    for (const TapeEntry& entry : program.tape(phase)->entries()) {
      if (const auto* store = std::get_if<op::OffloadStore<TensorId>>(&entry.op)) {
        EXPECT_EQ(store->host, program.offloaded.at(static_cast<size_t>(entry.layer)));
        events.push_back("store " + std::to_string(store->ticket));
      } else if (const auto* fetch = std::get_if<op::OffloadFetch<TensorId>>(&entry.op)) {
        EXPECT_EQ(fetch->host, program.offloaded.at(static_cast<size_t>(entry.layer)));
        events.push_back("fetch " + std::to_string(fetch->ticket));
      } else if (const auto* wait = std::get_if<op::OffloadWait<TensorId>>(&entry.op)) {
        events.push_back("wait " + std::to_string(wait->ticket));
      } else if (op_name(entry.op) == "attention_backward") {
        events.push_back("backward " + std::to_string(entry.layer));
      }
    }
    const std::vector<std::string> expected = {"store 0", "wait 0",     "store 1", "wait 1",    "store 2",    "wait 2",
                                               "fetch 2", "backward 3", "wait 2",  "fetch 1",   "backward 2", "wait 1",
                                               "fetch 0", "backward 1", "wait 0",  "backward 0"};
    EXPECT_EQ(events, expected);
  }
}

TEST(LlamaOffload, TheDeviceNoLongerHoldsAnInputForEachLayer) {
  const auto live_bytes = [](bool offloads, int64_t layers) {
    return program_with(offloads, layers).memory->phases().at(1).live_bytes;
  };
  const int64_t input = 64 * 32 * 4;
  EXPECT_EQ(live_bytes(false, 12) - live_bytes(false, 6), 6 * input);
  EXPECT_EQ(live_bytes(true, 12), live_bytes(true, 6));
  EXPECT_EQ(program_with(true, 12).memory->host_bytes(), 11 * input);
  EXPECT_EQ(program_with(false, 12).memory->host_bytes(), 0);
}

TEST(LlamaOffload, EvaluationKeepsItsHandsOffTheHost) {
  const Program program = program_with(true);
  EXPECT_TRUE(ops_of<op::OffloadStore>(*program.tape(Phase::kEval)).empty());
  EXPECT_TRUE(ops_of<op::OffloadWait>(*program.tape(Phase::kEval)).empty());
}

TEST(LlamaOffload, AModelOfOneBlockHasNothingToMove) {
  EXPECT_EQ(program_with(true, 1).memory->host_bytes(), 0);
}

TEST(LlamaOffload, AnotherRecomputeOptionIsRefused) {
  ProgramOptions options = small_options();
  options.offloads_activations = true;
  EXPECT_THROW(make_llama_program(small_config(), options, PlainSizes()), ConfigError);
}

}  // namespace
}  // namespace litespark
