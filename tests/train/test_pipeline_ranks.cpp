// SPDX-License-Identifier: Apache-2.0
// Pipeline parallelism: ranks, which are threads here, hold different layers of a replica and give the losses and
// weights of one.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <mutex>

#include "core/error.h"
#include "support/error_text.h"
#include "train/compared_runs.h"
#include "train/rank_runs.h"
#include "train/saved_run.h"

namespace litespark {
namespace {

constexpr int kSteps = 3;

struct Layout {
  int64_t stages = 1;
  int64_t data_ranks = 1;
  int64_t tensor_ranks = 1;
  int64_t chunks = 1;
  std::vector<int64_t> range_layers = {};

  int ranks() const { return static_cast<int>(stages * data_ranks * tensor_ranks); }
  std::string text() const {
    return std::to_string(stages) + " stages x " + std::to_string(data_ranks) + " data ranks x " +
           std::to_string(tensor_ranks) + " tensor ranks, chunks: " + std::to_string(chunks) +
           (range_layers.empty() ? "" : ", the first of " + std::to_string(range_layers.front()) + " layers");
  }
};

/// Four layers, and `micro_batches` a step over all data ranks.
RankedRun run_of(const Layout& layout, int64_t micro_batches) {
  RankedRun run;
  run.config.num_hidden_layers = 4;
  run.batches = twelve_batches();
  run.options.stages = layout.stages;
  run.options.chunks = layout.chunks;
  run.options.range_layers = layout.range_layers;
  run.options.tensor_ranks = layout.tensor_ranks;
  run.trainer.accumulation = micro_batches / layout.data_ranks;
  run.options.accumulates = run.trainer.accumulation > 1;
  return run;
}

Outcome train(const Layout& layout, const RankedRun& run) {
  return train_ranks(layout.ranks(), run, kSteps);
}

/// The same run with other ranks and as many micro-batches a step.
RankedRun with_layout(RankedRun run, const Layout& layout, int64_t micro_batches) {
  const RankedRun other = run_of(layout, micro_batches);
  run.options.stages = other.options.stages;
  run.options.chunks = other.options.chunks;
  run.options.range_layers = other.options.range_layers;
  run.options.tensor_ranks = other.options.tensor_ranks;
  run.options.accumulates = other.options.accumulates;
  run.trainer.accumulation = other.trainer.accumulation;
  return run;
}

struct Case {
  std::string name;
  RankedRun run;
};

/// Every number format, biases, head norms, recomputation.
std::vector<Case> cases(int64_t micro_batches) {
  std::vector<Case> all;
  const auto add = [&](std::string name, const std::function<void(RankedRun&)>& change) {
    Case given{.name = std::move(name), .run = run_of({}, micro_batches)};
    change(given.run);
    all.push_back(std::move(given));
  };
  add("f32", [](RankedRun&) {});
  add("biases, head norms and z-loss", [](RankedRun& run) {
    run.config.has_qkv_bias = run.config.has_output_bias = run.config.has_mlp_bias = run.config.has_qk_norm = true;
    run.options.z_loss = 1e-3;
  });
  add("recomputed blocks", [](RankedRun& run) { run.options.recompute = Recompute::kBlock; });
  add("segments that stages cut", [](RankedRun& run) {
    run.options.recompute = Recompute::kEveryK;
    run.options.recompute_every = 3;
  });
  add("bf16", [](RankedRun& run) { run.options.compute = DType::kBF16; });
  add("bf16 with remainders and a bf16 stream", [](RankedRun& run) {
    run.options.compute = run.options.residual = DType::kBF16;
    run.options.master = MasterWeights::kBF16Remainder;
  });
  add("noise in weights and moments", [](RankedRun& run) {
    run.options.compute = run.options.moments = DType::kBF16;
    run.options.master = MasterWeights::kBF16;
    run.options.adamw.seed = 3;
  });
  return all;
}

TEST(PipelineRanks, GiveTheVeryBitsOfOneRankThatTakesTheSameMicroBatches) {
  for (const int64_t micro_batches : {1, 4}) {
    for (const Case& given : cases(micro_batches)) {
      for (const bool packs : {true, false}) {
        RankedRun run = given.run;
        run.packs = packs;
        const Outcome expected = train({}, run);
        for (const Layout& layout : {Layout{.stages = 2}, Layout{.stages = 4}, Layout{.stages = 2, .chunks = 2}}) {
          if (micro_batches < layout.chunks) continue;
          SCOPED_TRACE(given.name + (packs ? ", packed, " : ", ") + std::to_string(micro_batches) + " micro-batches, " +
                       layout.text());
          expect_same_bits(train(layout, with_layout(run, layout, micro_batches)), expected);
        }
      }
    }
  }
}

TEST(PipelineRanks, AnyNumberOfStagesTakesAnyNumberOfMicroBatches) {
  for (const int64_t micro_batches : {1, 2, 3, 5}) {
    const Outcome expected = train({}, run_of({}, micro_batches));
    for (const int64_t stages : {2, 3, 4}) {
      SCOPED_TRACE(std::to_string(stages) + " stages, micro-batches: " + std::to_string(micro_batches));
      expect_same_bits(train({.stages = stages}, run_of({.stages = stages}, micro_batches)), expected);
    }
  }
}

TEST(PipelineRanks, InterleavedStagesTakeWholeRounds) {
  for (const int64_t micro_batches : {2, 4, 6}) {
    const Outcome expected = train({}, run_of({}, micro_batches));
    const Layout layout{.stages = 2, .chunks = 2};
    expect_same_bits(train(layout, run_of(layout, micro_batches)), expected);
  }
  RankedRun deep = run_of({}, 3);
  deep.config.num_hidden_layers = 7;
  const Outcome expected = train({}, deep);
  const Layout layout{.stages = 3, .chunks = 2};
  expect_same_bits(train(layout, with_layout(deep, layout, 3)), expected);
}

// cluster.pp_layers.
TEST(PipelineRanks, OfAnyLengthsGiveTheVeryBitsOfOneRank) {
  const Outcome expected = train({}, run_of({}, 4));
  for (const Layout& layout : {Layout{.stages = 2, .range_layers = {1, 3}}, Layout{.stages = 2, .range_layers = {3, 1}},
                               Layout{.stages = 3, .range_layers = {1, 2, 1}}}) {
    SCOPED_TRACE(layout.text());
    on_ranks(layout.ranks(), run_of(layout, 4), [&](TinyRun& mine) {
      const Program& program = mine.executor.program();
      EXPECT_EQ(program.layers.at(0).count, layout.range_layers[static_cast<size_t>(program.options.stage)]);
    });
    expect_same_bits(train(layout, run_of(layout, 4)), expected);
  }
  RankedRun deep = run_of({}, 2);
  deep.config.num_hidden_layers = 7;
  const Outcome of_one = train({}, deep);
  const Layout chunks{.stages = 2, .chunks = 2, .range_layers = {2, 1, 3, 1}};
  expect_same_bits(train(chunks, with_layout(deep, chunks, 2)), of_one);
  const Layout both{.stages = 2, .data_ranks = 2, .tensor_ranks = 2, .range_layers = {5, 2}};
  expect_near(train(both, with_layout(deep, both, 2)), of_one, 2e-7, 2e-5);
}

// The head's part of a tied embedding's gradient is added once for all micro-batches, not in front of each lookup's.
TEST(PipelineRanks, ATiedEmbeddingIsOneParameterOnTwoStages) {
  for (const int64_t micro_batches : {1, 4}) {
    RankedRun run = run_of({}, micro_batches);
    run.config.tie_word_embeddings = true;
    const Outcome expected = train({}, run);
    for (const Layout& layout : {Layout{.stages = 2}, Layout{.stages = 3}, Layout{.stages = 2, .data_ranks = 2},
                                 Layout{.stages = 4}, Layout{.stages = 2, .data_ranks = 2, .chunks = 2}}) {
      if (micro_batches < layout.data_ranks * layout.chunks) continue;
      SCOPED_TRACE(layout.text());
      expect_near(train(layout, with_layout(run, layout, micro_batches)), expected, 2e-7, 2e-5);
    }
  }
}

TEST(PipelineRanks, ATiedEmbeddingHasTheSameBitsOnTheFirstAndTheLastStage) {
  for (const bool is_noisy : {false, true}) {
    RankedRun run = run_of({.stages = 3}, 2);
    run.config.tie_word_embeddings = true;
    if (is_noisy) {
      run.options.compute = run.options.moments = DType::kBF16;
      run.options.master = MasterWeights::kBF16;
    }
    std::array<std::vector<float>, 3> embeddings;
    on_ranks(3, run, [&](TinyRun& mine) {
      for (int step = 0; step < kSteps; ++step) mine.trainer.step_and_finish();
      const Program& program = mine.executor.program();
      const auto held = program.params.find(ParamRole::kEmbedding);
      if (held) embeddings[static_cast<size_t>(program.options.stage)] = get_parameter(mine.executor, *held);
    });
    EXPECT_EQ(embeddings[0], embeddings[2]);
    EXPECT_EQ(embeddings[0].size(), 96u * 32u);
    EXPECT_TRUE(embeddings[1].empty());
  }
}

TEST(PipelineRanks, ComposeWithDataRanks) {
  for (const bool shards_gradients : {false, true}) {
    RankedRun run = run_of({}, 4);
    const Outcome expected = train({}, run);
    run.options.shards_gradients = shards_gradients;
    const Layout layout{.stages = 2, .data_ranks = 2};
    SCOPED_TRACE(layout.text());
    expect_near(train(layout, with_layout(run, layout, 4)), expected, 2e-7, 2e-5);
    // Stages change nothing of what data ranks do.
    const Layout two{.data_ranks = 2};
    expect_same_bits(train(layout, with_layout(run, layout, 4)), train(two, with_layout(run, two, 4)));
  }
}

TEST(PipelineRanks, ComposeWithTensorRanks) {
  for (const bool is_tied : {false, true}) {
    RankedRun run = run_of({}, 2);
    run.config.tie_word_embeddings = is_tied;
    run.config.vocab_size = is_tied ? 101 : 96;
    const Outcome expected = train({}, run);
    const Layout layout{.stages = 2, .tensor_ranks = 2};
    const Outcome found = train(layout, with_layout(run, layout, 2));
    expect_near(found, expected, 2e-7, 2e-5);
    if (is_tied) continue;
    const Layout two{.tensor_ranks = 2};
    expect_same_bits(found, train(two, with_layout(run, two, 2)));
  }
}

TEST(PipelineRanks, ComposeWithDataAndTensorRanksAtOnce) {
  const Outcome expected = train({}, run_of({}, 4));
  for (const int64_t chunks : {1, 2}) {
    const Layout layout{.stages = 2, .data_ranks = 2, .tensor_ranks = 2, .chunks = chunks};
    expect_near(train(layout, run_of(layout, 4)), expected, 2e-7, 2e-5);
  }
}

TEST(PipelineRanks, ComposeWithAGradientCache) {
  RankedRun run = run_of({}, 2);
  run.options.sync_small_every = 3;
  const Layout layout{.stages = 2, .data_ranks = 2};
  const Layout two{.data_ranks = 2};
  expect_same_bits(train(layout, with_layout(run, layout, 2)), train(two, with_layout(run, two, 2)));
}

TEST(PipelineRanks, AllocateExactlyWhatThePlanSaysAndLessThanOne) {
  RankedRun run = run_of({.stages = 2}, 2);
  std::array<int64_t, 2> bytes{};
  on_ranks(2, run, [&](TinyRun& mine) {
    const Program& program = mine.executor.program();
    EXPECT_EQ(mine.executor.allocated_bytes(), program.memory->total_bytes());
    bytes[static_cast<size_t>(program.options.stage)] = program.memory->persistent_bytes();
  });
  on_ranks(1, with_layout(run, {}, 2), [&](TinyRun& one) {
    for (const int64_t of_stage : bytes) EXPECT_LT(of_stage, one.executor.program().memory->persistent_bytes());
  });
}

/// A source that gives the run's batches.
class BatchList final : public BatchSource {
 public:
  explicit BatchList(const std::vector<Batch>& batches) : batches_(batches) {}
  void fill(uint64_t index, Batch& batch) const override { batch = batches_[index % batches_.size()]; }
  uint64_t batches_per_epoch() const override { return batches_.size(); }
  std::string fingerprint() const override { return "list"; }

 private:
  const std::vector<Batch>& batches_;
};

TEST(PipelineRanks, EvaluateLikeOneAndTrainOnAfterwards) {
  std::optional<EvalResult> expected;
  for (const Layout& layout : {Layout{}, Layout{.stages = 2}, Layout{.stages = 3}, Layout{.stages = 2, .data_ranks = 2},
                               Layout{.stages = 2, .chunks = 2}}) {
    SCOPED_TRACE(layout.text());
    std::mutex mutex;
    on_ranks(layout.ranks(), run_of(layout, 2), [&](TinyRun& mine) {
      const BatchList source(mine.batches);
      const EvalResult found = *mine.trainer.evaluate(source, 5);
      const StepRecord record = mine.trainer.step_and_finish();
      const std::lock_guard lock(mutex);
      if (!expected) expected = found;
      EXPECT_NEAR(found.loss, expected->loss, 1e-12);
      EXPECT_EQ(found.supervised_tokens, expected->supervised_tokens);
      EXPECT_FALSE(record.skipped);
    });
  }
}

TEST(PipelineRanks, ANanOnOneStageSkipsTheStepOnAll) {  // fault:C1
  for (int poisoned = 0; poisoned < 3; ++poisoned) {
    RankedRun run = run_of({.stages = 3}, 2);
    run.trainer.nan_limit = 3;
    std::array<std::vector<bool>, 3> skipped;
    on_ranks(3, run, [&](TinyRun& mine) {
      const Program& program = mine.executor.program();
      const auto stage = static_cast<size_t>(program.options.stage);
      const ParamRole role = ParamRole::kAttentionNorm;
      const int64_t whole = *program.whole_params.find(role, program.layers.front().first);
      std::vector<float> norm = get_parameter(mine.executor, *program.params.find(role, program.layers.front().first));
      const float kept = norm[0];
      for (int step = 0; step < 3; ++step) {
        norm[0] = static_cast<int>(stage) == poisoned && step == 1 ? std::nanf("") : kept;
        set_parameter(mine.executor, whole, norm);
        skipped[stage].push_back(mine.trainer.step_and_finish().skipped);
      }
    });
    for (const auto& of_stage : skipped) EXPECT_EQ(of_stage, (std::vector<bool>{false, true, false})) << poisoned;
  }
}

TEST(PipelineRanks, ABadTokenEndsAllAndIsCountedOnce) {
  RankedRun run = run_of({.stages = 3}, 2);
  run.batches[1].ids[3] = 96;
  std::array<std::string, 3> errors;
  on_ranks(3, run, [&](TinyRun& mine) {
    errors[static_cast<size_t>(mine.executor.program().options.stage)] =
        error_text<DataError>([&] { mine.trainer.step_and_finish(); });
  });
  for (const std::string& error : errors) EXPECT_NE(error.find("in step 1; got 1"), std::string::npos) << error;
}

TEST(PipelineRanks, ARankThatStopsEndsTheOthersWithAMessage) {
  RankedRun run = run_of({.stages = 3}, 4);
  std::array<std::string, 3> errors;
  std::mutex mutex;
  const auto leave = [&] {
    on_ranks(3, run, [&](TinyRun& mine) {
      const auto stage = static_cast<size_t>(mine.executor.program().options.stage);
      try {
        mine.trainer.step_and_finish();  // the others may be in its last call still
        if (stage == 1) throw DeviceError("test", "the stage in the middle is lost");
        mine.trainer.step_and_finish();
      } catch (const CommError& error) {
        const std::lock_guard lock(mutex);
        errors[stage] = error.what();
      }
    });
  };
  EXPECT_THROW(leave(), DeviceError);
  for (const size_t stage : {size_t{0}, size_t{2}})
    EXPECT_NE(errors[stage].find("rank 1"), std::string::npos) << errors[stage];
}

RankedRun saved_run_of(const Layout& layout, MasterWeights master) {
  RankedRun run = run_of(layout, 4);
  run.options.compute = DType::kBF16;
  run.options.master = master;
  run.packs = layout.data_ranks != 2;
  run.config.vocab_size = 101;
  run.config.tie_word_embeddings = master == MasterWeights::kF32;
  return run;
}

TEST(PipelineRanks, SaveWhatAnyOtherLayoutResumesFrom) {
  for (const auto master : {MasterWeights::kF32, MasterWeights::kBF16Remainder}) {
    for (const Layout& saving :
         {Layout{.stages = 2, .data_ranks = 2, .chunks = 2}, Layout{.stages = 2, .tensor_ranks = 2},
          Layout{.stages = 3, .range_layers = {1, 2, 1}}}) {
      SCOPED_TRACE("saved by " + saving.text());
      SavedRun saved;
      const Outcome expected = train_and_save(saving.ranks(), saved_run_of(saving, master), 2, saved);
      std::vector<double> losses;
      for (const Layout& layout : {Layout{}, Layout{.stages = 2}, Layout{.stages = 4}, Layout{.data_ranks = 2},
                                   Layout{.stages = 2, .data_ranks = 2}, Layout{.stages = 2, .tensor_ranks = 2},
                                   Layout{.stages = 2, .chunks = 2}, Layout{.stages = 2, .range_layers = {1, 3}}}) {
        SCOPED_TRACE("resumed by " + layout.text());
        on_ranks(layout.ranks(), saved_run_of(layout, master), [&](TinyRun& mine) {
          const ResumedState state = read_checkpoint(saved.store.path_of(2), saved.context(mine), mine.executor);
          mine.trainer.restore(state.progress);
          const Outcome found = gathered_state(mine);
          const StepRecord record = mine.trainer.step_and_finish();
          EXPECT_FALSE(record.skipped);
          if (mine.executor.program().options.world_rank() != 0) return;
          EXPECT_EQ(found.weights, expected.weights);
          EXPECT_EQ(found.first_moment, expected.first_moment);
          EXPECT_EQ(found.second_moment, expected.second_moment);
          losses.push_back(record.loss);
        });
      }
      for (const double loss : losses) EXPECT_NEAR(loss, losses[0], 3e-3 * losses[0]);
    }
  }
}

}  // namespace
}  // namespace litespark
