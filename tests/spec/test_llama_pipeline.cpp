// SPDX-License-Identifier: Apache-2.0
// The tapes of a pipeline stage: which ops stand there, what neighbours tell each other, and how much memory the
// micro-batches in flight take.
#include <gtest/gtest.h>

#include <algorithm>

#include "core/error.h"
#include "spec/llama_pipeline.h"
#include "support/error_text.h"
#include "support/plain_sizes.h"
#include "support/tape_reader.h"

namespace litespark {
namespace {

using test::ops_of;
using test::small_config;
using test::small_options;

ProgramOptions stage_options(int64_t stages, int64_t stage, int64_t micro_batches) {
  ProgramOptions options = small_options();
  options.stages = stages;
  options.stage = stage;
  options.micro_batches = micro_batches;
  options.accumulates = micro_batches > 1;
  return options;
}

Program stage_program(int64_t stages, int64_t stage, int64_t micro_batches,
                      const ModelConfig& config = small_config()) {
  return make_llama_program(config, stage_options(stages, stage, micro_batches), PlainSizes());
}

TEST(LlamaPipeline, OneTapeHoldsAllMicroBatchesOfAStepAndEachReadsItsOwnBatch) {
  const Program program = stage_program(2, 0, 4);
  EXPECT_EQ(program.tape(Phase::kTrainFirst), nullptr);
  EXPECT_EQ(program.tape(Phase::kTrainNext), nullptr);
  const auto lookups = ops_of<op::EmbeddingForward>(*program.tape(Phase::kTrainStep));
  ASSERT_EQ(lookups.size(), 4u);
  for (size_t micro = 0; micro < 4; ++micro) {
    EXPECT_EQ(lookups[micro].ids, program.batch_of(static_cast<int64_t>(micro)).ids);
  }
  EXPECT_THROW(static_cast<void>(program.batch_of(4)), std::out_of_range);
}

TEST(LlamaPipeline, EachStageHasItsLayersTheFirstTheEmbeddingAndTheLastTheLoss) {
  for (int64_t stage = 0; stage < 3; ++stage) {
    const Program program = stage_program(3, stage, 2);
    const Tape& tape = *program.tape(Phase::kTrainStep);
    EXPECT_EQ(program.layers.front().first, stage);
    EXPECT_EQ(ops_of<op::EmbeddingForward>(tape).size(), stage == 0 ? 2u : 0u);
    EXPECT_EQ(ops_of<op::EmbeddingBackward>(tape).size(), stage == 0 ? 2u : 0u);
    EXPECT_EQ(ops_of<op::LossReduce>(tape).size(), stage == 2 ? 2u : 0u);
    EXPECT_EQ(ops_of<op::AttentionForward>(tape).size(), 2u);
    EXPECT_EQ(ops_of<op::AttentionBackward>(tape).size(), 2u);
    for (const TapeEntry& entry : tape.entries()) EXPECT_TRUE(entry.layer == -1 || entry.layer == stage);
  }
}

TEST(LlamaPipeline, NeighboursSendAndReceiveTheSameShapes) {
  for (const int64_t micro_batches : {1, 2, 5}) {
    for (const Phase phase : {Phase::kTrainStep, Phase::kEval}) {
      const Program before = stage_program(2, 0, micro_batches);
      const Program behind = stage_program(2, 1, micro_batches);
      const auto streams = ops_of<op::Send>(*before.tape(phase));
      const auto gradients = ops_of<op::Send>(*behind.tape(phase));
      const auto count = static_cast<size_t>(phase == Phase::kEval ? 1 : micro_batches);
      EXPECT_EQ(streams.size(), count);
      EXPECT_EQ(ops_of<op::Receive>(*behind.tape(phase)).size(), count);
      EXPECT_EQ(gradients.size(), phase == Phase::kEval ? 0 : count);
      EXPECT_EQ(ops_of<op::Receive>(*before.tape(phase)).size(), gradients.size());
      for (const auto& send : streams) {
        EXPECT_EQ(send.neighbour, 1);
        EXPECT_EQ(before.tensors[send.sent].shape, (Shape{64, 32}));
      }
      for (const auto& receive : ops_of<op::Receive>(*behind.tape(phase))) {
        EXPECT_EQ(receive.neighbour, -1);
        EXPECT_EQ(behind.tensors[receive.received].shape, (Shape{64, 32}));
      }
    }
  }
}

TEST(LlamaPipeline, InterleavedStagesVisitTheirLayersRangeByRange) {
  ModelConfig config = small_config();
  config.num_hidden_layers = 4;
  ProgramOptions options = stage_options(2, 1, 2);
  options.chunks = 2;
  const Program program = make_llama_program(config, options, PlainSizes());
  std::vector<int32_t> forwards;
  for (const TapeEntry& entry : program.tape(Phase::kTrainStep)->entries()) {
    if (op_name(entry.op) == "attention_forward") forwards.push_back(entry.layer);
  }
  EXPECT_EQ(forwards, (std::vector<int32_t>{1, 1, 3, 3}));
  EXPECT_EQ(ops_of<op::Send>(*program.tape(Phase::kEval)).size(), 1u);
  EXPECT_EQ(ops_of<op::Receive>(*program.tape(Phase::kEval)).size(), 2u);
}

TEST(LlamaPipeline, ForwardsBetweenBackwardsAreNotTakenForRecomputedOnes) {
  for (const Recompute recompute : {Recompute::kNone, Recompute::kBlock}) {
    ProgramOptions options = stage_options(2, 0, 4);
    options.recompute = recompute;
    const Program program = make_llama_program(small_config(), options, PlainSizes());
    int recomputed = 0;
    int first = 0;
    for (const TapeEntry& entry : program.tape(Phase::kTrainStep)->entries()) {
      if (op_name(entry.op) != "attention_forward") continue;
      ++(entry.is_recomputed ? recomputed : first);
    }
    EXPECT_EQ(first, 4 * program.layers.front().count);
    EXPECT_EQ(recomputed, recompute == Recompute::kBlock ? first : 0);
  }
}

TEST(LlamaPipeline, GradientsAreWrittenByTheFirstMicroBatchAndAddedToByTheOthers) {
  const Program program = stage_program(2, 1, 3);
  std::vector<bool> accumulates;
  for (const auto& norm : ops_of<op::RmsNormBackward>(*program.tape(Phase::kTrainStep))) {
    if (norm.dweight ==
        program.param_tensors[static_cast<size_t>(*program.params.find(ParamRole::kFinalNorm))].gradient)
      accumulates.push_back(norm.accumulate);
  }
  EXPECT_EQ(accumulates, (std::vector<bool>{false, true, true}));
}

TEST(LlamaPipeline, ATiedEmbeddingIsSummedOnceBetweenTheFirstAndTheLastStage) {
  ModelConfig config = small_config();
  for (const bool is_tied : {false, true}) {
    config.tie_word_embeddings = is_tied;
    for (int64_t stage = 0; stage < 3; ++stage) {
      const Program program = stage_program(3, stage, 2, config);
      const auto sums = ops_of<op::AllReduce>(*program.tape(Phase::kTrainStep));
      ASSERT_EQ(sums.size(), is_tied && stage != 1 ? 1u : 0u);
      for (const auto& sum : sums) EXPECT_EQ(sum.group, op::CommGroup::kEnds);
    }
  }
}

/// Bytes that stand in the arena at the worst op.
int64_t arena_of_step(int64_t stages, int64_t stage, int64_t micro_batches) {
  const Program program = stage_program(stages, stage, micro_batches);
  for (const PhasePeak& peak : program.memory->phases()) {
    if (peak.phase == "train_step") return peak.live_bytes;
  }
  return 0;
}

// One layer a stage. Beyond min(m, P - s) micro-batches nothing is kept but two streams that travel beside work.
TEST(LlamaPipeline, MemoryGrowsWithTheMicroBatchesInFlightAndNoFurther) {
  constexpr int64_t kStream = 64 * 32 * 4;
  for (int64_t stage = 0; stage < 3; ++stage) {
    const int64_t in_flight = 3 - stage;
    for (int64_t micro_batches = 2; micro_batches <= in_flight; ++micro_batches) {
      EXPECT_GT(arena_of_step(3, stage, micro_batches), arena_of_step(3, stage, micro_batches - 1) + kStream);
    }
    const int64_t full = arena_of_step(3, stage, in_flight);
    for (int64_t micro_batches = in_flight; micro_batches <= 9; ++micro_batches) {
      EXPECT_GE(arena_of_step(3, stage, micro_batches), full);
      EXPECT_LE(arena_of_step(3, stage, micro_batches), full + 2 * kStream) << stage << ", " << micro_batches;
    }
    EXPECT_EQ(arena_of_step(3, stage, 9), arena_of_step(3, stage, 6));
  }
}

TEST(LlamaPipeline, RefusesWhatStagesCannotDoByItsName) {
  const auto expect = [](const std::string& word, const std::function<void(ProgramOptions&)>& change) {
    ModelConfig config = small_config();
    config.num_hidden_layers = 4;
    ProgramOptions options = stage_options(2, 0, 1);
    change(options);
    const std::string text = error_text<ConfigError>([&] { make_llama_program(config, options, PlainSizes()); });
    EXPECT_NE(text.find(word), std::string::npos) << text;
  };
  expect("cluster.pp", [](ProgramOptions& options) { options.stages = 5; });
  expect("cluster.vpp", [](ProgramOptions& options) {
    options.stages = 1;
    options.chunks = 2;
  });
  expect("cluster.vpp", [](ProgramOptions& options) {
    options.chunks = 3;
    options.micro_batches = 2;
    options.accumulates = true;
  });
  expect("train.accumulation = 3", [](ProgramOptions& options) {
    options.chunks = 2;
    options.micro_batches = 3;
    options.accumulates = true;
  });
  expect("distribution.zero", [](ProgramOptions& options) {
    options.chunks = options.data_ranks = options.micro_batches = 2;
    options.accumulates = options.shards_gradients = true;
  });
  expect("precision.matmul", [](ProgramOptions& options) {
    options.compute = DType::kBF16;
    options.fp8 = Fp8Options{};
  });
  expect("train.sample_every", [](ProgramOptions& options) { options.generation = GenerationShape{.capacity = 8}; });
  expect("memory.offload", [](ProgramOptions& options) {
    options.recompute = Recompute::kBlock;
    options.offloads_activations = true;
  });
  expect("device.verify_every", [](ProgramOptions& options) { options.has_checksums = true; });
  expect("precision.gradient", [](ProgramOptions& options) {
    options.compute = options.gradient = DType::kBF16;
    options.micro_batches = 2;
    options.accumulates = true;
  });
}

}  // namespace
}  // namespace litespark
