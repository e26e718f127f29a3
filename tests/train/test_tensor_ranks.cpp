// SPDX-License-Identifier: Apache-2.0
// Tensor parallelism: ranks, which are threads here, share the weights and the work of a replica and give the losses
// and weights of one.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <mutex>

#include "core/error.h"
#include "spec/param_cut.h"
#include "support/error_text.h"
#include "train/compared_runs.h"
#include "train/rank_runs.h"
#include "train/saved_run.h"

namespace litespark {
namespace {

constexpr int kSteps = 5;

struct Case {
  std::string name;
  RankedRun run;
  double loss_limit = 2e-7;  ///< relative
  double weight_limit = 2e-5;
};

RankedRun base_run(int64_t tensor_ranks, int64_t accumulation = 1) {
  RankedRun run;
  run.batches = twelve_batches();
  run.options.tensor_ranks = tensor_ranks;
  run.options.accumulates = accumulation > 1;
  run.trainer.accumulation = accumulation;
  return run;
}

/// Every number format, ties, biases, head norms; sizes that do not divide.
std::vector<Case> cases(int64_t tensor_ranks) {
  std::vector<Case> all;
  const auto add = [&](std::string name, const std::function<void(Case&)>& change) {
    Case given{.name = std::move(name), .run = base_run(tensor_ranks)};
    change(given);
    all.push_back(std::move(given));
  };
  const auto in_bf16 = [](Case& given) {
    given.run.options.compute = DType::kBF16;
    given.loss_limit = 1e-3;
    given.weight_limit = 1e-2;
  };
  add("f32", [](Case&) {});
  add("tied", [](Case& given) { given.run.config.tie_word_embeddings = true; });
  add("biases and head norms", [](Case& given) {
    ModelConfig& config = given.run.config;
    config.has_qkv_bias = config.has_output_bias = config.has_mlp_bias = config.has_qk_norm = true;
  });
  add("one key head", [](Case& given) {
    given.run.config.num_key_value_heads = 1;
    given.run.config.has_qkv_bias = given.run.config.has_qk_norm = true;
  });
  add("every head its own keys", [](Case& given) { given.run.config.num_key_value_heads = 4; });
  add("nothing divides", [](Case& given) {
    given.run.config.vocab_size = 101;
    given.run.config.intermediate_size = 50;
    given.run.config.tie_word_embeddings = true;
    given.run.options.z_loss = 1e-3;
  });
  add("recomputation by segments", [](Case& given) {
    given.run.options.recompute = Recompute::kEveryK;
    given.run.options.recompute_every = 2;
  });
  add("recomputed blocks in host memory", [](Case& given) {
    given.run.options.recompute = Recompute::kBlock;
    given.run.options.offloads_activations = true;
  });
  add("bf16", in_bf16);
  add("bf16 with remainders", [&](Case& given) {
    in_bf16(given);
    given.run.options.master = MasterWeights::kBF16Remainder;
    given.run.options.residual = DType::kBF16;
  });
  add("bf16 gradients", [&](Case& given) {
    in_bf16(given);
    given.run.options.gradient = DType::kBF16;
    given.run.config.num_key_value_heads = 1;
  });
  return all;
}

RankedRun on_one(RankedRun run) {
  run.options.tensor_ranks = 1;
  return run;
}

TEST(TensorRanks, GiveTheLossesAndWeightsOfOneWithinRounding) {
  for (const int ranks : {2, 4}) {
    for (Case& given : cases(ranks)) {
      for (const bool packs : {true, false}) {
        SCOPED_TRACE(given.name + (packs ? ", packed, ranks: " : ", ranks: ") + std::to_string(ranks));
        given.run.packs = packs;
        expect_near(train_ranks(ranks, given.run, kSteps), train_ranks(1, on_one(given.run), kSteps), given.loss_limit,
                    given.weight_limit);
      }
    }
  }
}

TEST(TensorRanks, ThreeShareSixHeadsOrThree) {
  for (const int64_t heads : {6, 3}) {
    RankedRun run = base_run(3);
    run.config.num_attention_heads = heads;
    run.config.num_key_value_heads = heads == 6 ? 3 : 1;
    run.options.batch = {.num_tokens = 63, .max_documents = 4, .max_length = 32};
    for (uint64_t seed = 0; seed < 12; ++seed) {
      run.batches[seed] = random_batch(run.options.batch, {20, 11, 32}, 96, seed + 1);
    }
    expect_near(train_ranks(3, run, kSteps), train_ranks(1, on_one(run), kSteps), 2e-7, 2e-5);
  }
}

// The rows that a rank keeps depend on it, and so does the order in which it adds a norm's gradients.
TEST(TensorRanks, ExchangeRowsInAnyNumberOfStretches) {
  for (Case& given : cases(2)) {
    SCOPED_TRACE(given.name);
    given.run.options.tensor_stretches = 1;
    const Outcome expected = train_ranks(2, given.run, kSteps);
    for (const int64_t stretches : {2, 4}) {
      given.run.options.tensor_stretches = stretches;
      expect_near(train_ranks(2, given.run, kSteps), expected, given.loss_limit, given.weight_limit);
    }
  }
}

TEST(TensorRanks, BeginWithTheVeryWeightsOfOne) {
  for (const int ranks : {2, 4}) {
    for (Case& given : cases(ranks)) {
      SCOPED_TRACE(given.name + ", ranks: " + std::to_string(ranks));
      EXPECT_EQ(train_ranks(ranks, given.run, 0).weights, train_ranks(1, on_one(given.run), 0).weights);
    }
  }
}

// 2 x 2, with and without accumulation: one rank that takes the same micro-batches a step.
TEST(TensorRanks, ComposeWithDataRanksThatShareTheOptimizer) {
  const Outcome expected = train_ranks(1, base_run(1, 4), kSteps);
  for (const int64_t tensor_ranks : {1, 2, 4}) {
    SCOPED_TRACE(tensor_ranks);
    const RankedRun run = base_run(tensor_ranks, tensor_ranks);
    expect_near(train_ranks(4, run, kSteps), expected, 2e-7, 2e-5);
  }
}

TEST(TensorRanks, ComposeWithDataRanksThatShareGradientsToo) {
  for (const int64_t kv_heads : {1, 2}) {
    RankedRun run = base_run(2, 2);
    run.config.num_key_value_heads = kv_heads;
    run.config.has_qkv_bias = run.config.has_output_bias = true;
    const Outcome zero1 = train_ranks(4, run, kSteps);
    run.options.shards_gradients = true;
    expect_near(train_ranks(4, run, kSteps), zero1, 2e-7, 2e-5);
    run.options.accumulates = false;
    run.trainer.accumulation = 1;
    const Outcome once = train_ranks(4, run, kSteps);
    run.options.shards_gradients = false;
    expect_same_bits(once, train_ranks(4, run, kSteps));
  }
}

TEST(TensorRanks, RepeatTheirBits) {
  for (const int ranks : {2, 4}) {
    RankedRun run = base_run(2);
    run.options.compute = DType::kBF16;
    run.config.num_key_value_heads = 1;
    expect_same_bits(train_ranks(ranks, run, kSteps), train_ranks(ranks, run, kSteps));
  }
}

/// Calls check(parameter, first rank's values, another rank's) for all ranks of one replica.
void compare_ranks(int ranks, const RankedRun& run,
                   const std::function<void(const ParamSpec&, std::span<const float>, std::span<const float>)>& check) {
  std::mutex mutex;
  std::vector<std::vector<std::vector<float>>> values(static_cast<size_t>(ranks));
  std::vector<ParamTable> tables(static_cast<size_t>(ranks));
  on_ranks(ranks, run, [&](TinyRun& mine) {
    for (int step = 0; step < kSteps; ++step) mine.trainer.step_and_finish();
    const auto rank = static_cast<size_t>(mine.executor.program().options.tensor_rank);
    const std::lock_guard lock(mutex);
    tables[rank] = mine.executor.program().params;
    for (size_t p = 0; p < tables[rank].params.size(); ++p) {
      values[rank].push_back(get_parameter(mine.executor, static_cast<int64_t>(p)));
    }
  });
  for (size_t rank = 1; rank < values.size(); ++rank) {
    for (size_t p = 0; p < values[0].size(); ++p) check(tables[rank].params[p], values[0][p], values[rank][p]);
  }
}

// Norms, biases behind a sum, and the one key and value head; also where noise rounds weights and moments.
TEST(TensorRanks, KeepCopiesEqualToTheLastBit) {
  for (const bool is_noisy : {false, true}) {
    RankedRun run = base_run(4);
    run.config.num_key_value_heads = 1;
    run.config.has_qk_norm = run.config.has_qkv_bias = run.config.has_output_bias = run.config.has_mlp_bias = true;
    if (is_noisy) {
      run.options.compute = run.options.moments = DType::kBF16;
      run.options.master = MasterWeights::kBF16;
      run.options.adamw.seed = 3;
    }
    int compared = 0;
    compare_ranks(4, run, [&](const ParamSpec& spec, std::span<const float> first, std::span<const float> other) {
      SCOPED_TRACE(spec.name);
      size_t begin = 0;
      if (!spec.cut->is_replicated) {
        if (spec.role != ParamRole::kQkv && spec.role != ParamRole::kQkvBias) return;
        begin = first.size() / 3;  // one query, one key and one value head a rank
        EXPECT_FALSE(std::equal(first.begin(), first.begin() + static_cast<std::ptrdiff_t>(begin), other.begin()));
      }
      ++compared;
      EXPECT_TRUE(std::equal(first.begin() + static_cast<std::ptrdiff_t>(begin), first.end(),
                             other.begin() + static_cast<std::ptrdiff_t>(begin)));
    });
    EXPECT_EQ(compared, 3 * (3 * 8 + 1));
  }
}

TEST(TensorRanks, PaddingStaysZero) {
  RankedRun run = base_run(4);
  run.config.vocab_size = 101;
  run.config.intermediate_size = 50;
  run.options.compute = DType::kBF16;
  std::vector<double> sums(4);
  on_ranks(4, run, [&](TinyRun& mine) {
    for (int step = 0; step < kSteps; ++step) mine.trainer.step_and_finish();
    const Program& program = mine.executor.program();
    for (size_t p = 0; p < program.params.params.size(); ++p) {
      std::vector<float> values = get_parameter(mine.executor, static_cast<int64_t>(p));
      for_cut_stretches(program.params.params[p], 0, std::ssize(values), [&](int64_t first, int64_t, int64_t count) {
        std::fill_n(values.begin() + first, count, 0.0f);
      });
      for (const float value : values)
        sums[static_cast<size_t>(program.options.tensor_rank)] += std::abs(double{value});
    }
  });
  for (const double sum : sums) EXPECT_EQ(sum, 0.0);
}

TEST(TensorRanks, ANanOnOneRankSkipsTheStepOnAll) {  // fault:C1
  RankedRun run = base_run(2);
  run.trainer.nan_limit = 3;
  std::array<std::vector<bool>, 4> skipped;
  on_ranks(4, run, [&](TinyRun& mine) {
    const auto rank = static_cast<size_t>(mine.executor.program().options.world_rank());
    // A norm weight, which forward reads as it lies: only this rank's rows become NaN by themselves.
    std::vector<float> norm = get_parameter(mine.executor, 1);
    const float kept = norm[0];
    for (int step = 0; step < 3; ++step) {
      norm[0] = rank == 3 && step == 1 ? std::nanf("") : kept;
      if (rank == 3) set_parameter(mine.executor, 1, norm);
      skipped[rank].push_back(mine.trainer.step_and_finish().skipped);
      norm = get_parameter(mine.executor, 1);
    }
  });
  for (const auto& of_rank : skipped) EXPECT_EQ(of_rank, (std::vector<bool>{false, true, false}));
}

TEST(TensorRanks, ABadTokenEndsAllAndIsCountedOnce) {
  RankedRun run = base_run(2);
  run.batches[1].ids[3] = 96;
  std::array<std::string, 4> errors;
  on_ranks(4, run, [&](TinyRun& mine) {
    errors[static_cast<size_t>(mine.executor.program().options.world_rank())] =
        error_text<DataError>([&] { mine.trainer.step_and_finish(); });
  });
  for (const std::string& error : errors) EXPECT_NE(error.find("in step 1; got 1"), std::string::npos) << error;
}

TEST(TensorRanks, AllocateExactlyWhatThePlanOfEveryRankSaysAndLessThanOne) {
  for (const bool packs : {true, false}) {
    RankedRun run = base_run(4);
    run.options.compute = DType::kBF16;
    run.config.has_output_bias = run.config.has_qkv_bias = true;
    run.packs = packs;
    std::array<int64_t, 4> persistent{}, arena{};
    on_ranks(4, run, [&](TinyRun& mine) {
      const MemoryPlan& plan = *mine.executor.program().memory;
      const auto rank = static_cast<size_t>(mine.executor.program().options.tensor_rank);
      persistent[rank] = plan.persistent_bytes();
      arena[rank] = plan.arena_bytes();
      EXPECT_EQ(mine.executor.allocated_bytes(), plan.total_bytes());
    });
    for (size_t rank = 1; rank < 4; ++rank) {
      EXPECT_EQ(persistent[rank], persistent[0]);
      EXPECT_EQ(arena[rank], arena[0]);
    }
    on_ranks(1, on_one(run), [&](TinyRun& one) {
      EXPECT_LT(persistent[0], one.executor.program().memory->persistent_bytes());
      EXPECT_LT(arena[0], one.executor.program().memory->arena_bytes());
    });
  }
}

TEST(TensorRanks, SaveWhatAnyOtherLayoutResumesFrom) {
  struct Layout {
    int ranks;
    int64_t tensor_ranks;
  };
  for (const auto master : {MasterWeights::kF32, MasterWeights::kBF16Remainder}) {
    const auto run_of = [&](const Layout& layout) {
      RankedRun run = base_run(layout.tensor_ranks, 4 * layout.tensor_ranks / layout.ranks);
      run.options.compute = DType::kBF16;
      run.options.master = master;
      run.packs = layout.ranks != 2;
      run.config.vocab_size = 101;
      run.config.num_key_value_heads = 1;
      return run;
    };
    const Layout saving{4, 4};
    SavedRun saved;
    const Outcome expected = train_and_save(saving.ranks, run_of(saving), 2, saved);
    std::vector<double> losses;
    for (const Layout& layout : {Layout{4, 4}, Layout{1, 1}, Layout{2, 2}, Layout{4, 2}, Layout{2, 1}}) {
      SCOPED_TRACE(std::to_string(layout.ranks) + " ranks, tensor: " + std::to_string(layout.tensor_ranks));
      on_ranks(layout.ranks, run_of(layout), [&](TinyRun& mine) {
        const ResumedState state = read_checkpoint(saved.store.path_of(2), saved.context(mine), mine.executor);
        mine.trainer.restore(state.progress);
        const Outcome found = gathered_state(mine);
        const StepRecord record = mine.trainer.step_and_finish();
        EXPECT_FALSE(record.skipped);
        if (mine.executor.program().options.world_rank() != 0) return;
        expect_same_bits(found, expected);
        losses.push_back(record.loss);
      });
    }
    for (const double loss : losses) EXPECT_NEAR(loss, losses[0], 3e-3 * losses[0]);
  }
}

TEST(TensorRanks, RefuseWhatTheyCannotShareByItsName) {
  const auto refusal = [](const std::function<void(ModelConfig&, ProgramOptions&)>& change) {
    ModelConfig config = tiny_model();
    ProgramOptions options = tiny_program_options();
    options.tensor_ranks = 2;
    change(config, options);
    const auto backend = make_cpu_backend({.threads = 1});
    return error_text<ConfigError>([&] { make_llama_program(config, options, backend->sizes()); });
  };
  const auto expect = [&](const std::string& text, const std::string& word) {
    EXPECT_NE(text.find(word), std::string::npos) << text;
  };
  expect(refusal([](ModelConfig&, ProgramOptions& options) { options.tensor_ranks = 3; }), "num_attention_heads = 4");
  expect(refusal([](ModelConfig& config, ProgramOptions& options) {
           config.num_attention_heads = 12;
           config.num_key_value_heads = 4;
           options.tensor_ranks = 6;
         }),
         "num_key_value_heads = 4");
  expect(refusal([](ModelConfig&, ProgramOptions& options) { options.batch.num_tokens = 63; }),
         "tokens of a micro-batch");
  expect(refusal([](ModelConfig&, ProgramOptions& options) {
           options.compute = DType::kBF16;
           options.fp8 = Fp8Options{};
         }),
         "precision.matmul");
  expect(refusal([](ModelConfig& config, ProgramOptions&) { config.positions = Positions::kAlibi; }),
         "model.positions");
  expect(refusal([](ModelConfig&, ProgramOptions& options) { options.generation = GenerationShape{.capacity = 8}; }),
         "train.sample_every");
  expect(refusal([](ModelConfig&, ProgramOptions& options) { options.has_checksums = true; }), "device.verify_every");
}

}  // namespace
}  // namespace litespark
