// SPDX-License-Identifier: Apache-2.0
// Context parallelism: ranks, which are threads here, share the rows of each micro-batch and give the losses and
// weights of one.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <mutex>
#include <optional>

#include "core/error.h"
#include "support/error_text.h"
#include "train/compared_runs.h"
#include "train/rank_runs.h"
#include "train/saved_run.h"

namespace litespark {
namespace {

constexpr int kSteps = 4;

struct Layout {
  int64_t context_ranks = 1;
  int64_t replicas = 1;
  int64_t tensor_ranks = 1;
  int64_t stages = 1;

  int ranks() const { return static_cast<int>(context_ranks * replicas * tensor_ranks * stages); }
  std::string text() const {
    return std::to_string(context_ranks) + " context ranks x " + std::to_string(replicas) + " replicas x " +
           std::to_string(tensor_ranks) + " tensor ranks x " + std::to_string(stages) + " stages";
  }
};

/// The same run on other ranks, with `micro_batches` a step over all replicas.
RankedRun with_layout(RankedRun run, const Layout& layout, int64_t micro_batches = 1) {
  run.options.context_ranks = layout.context_ranks;
  run.options.tensor_ranks = layout.tensor_ranks;
  run.options.stages = layout.stages;
  run.trainer.accumulation = micro_batches / layout.replicas;
  run.options.accumulates = run.trainer.accumulation > 1;
  return run;
}

RankedRun base_run() {
  RankedRun run;
  run.batches = twelve_batches();
  return run;
}

Outcome train(const Layout& layout, const RankedRun& run, int64_t micro_batches = 1) {
  SCOPED_TRACE(layout.text());
  return train_ranks(layout.ranks(), with_layout(run, layout, micro_batches), kSteps);
}

struct Case {
  std::string name;
  RankedRun run;
  double loss_limit = 2e-7;  ///< relative
  double weight_limit = 2e-5;
};

/// Micro-batches of 64 tokens whose documents have these lengths.
std::vector<Batch> batches_of(const RankedRun& run, const std::vector<int64_t>& lengths) {
  std::vector<Batch> batches;
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    batches.push_back(random_batch(run.options.batch, lengths, run.config.vocab_size, seed));
  }
  return batches;
}

/// Every number format, masks, ways to recompute; chunks of two ranks are 16 rows.
std::vector<Case> cases() {
  std::vector<Case> all;
  const auto add = [&](std::string name, const std::function<void(Case&)>& change) {
    Case given{.name = std::move(name), .run = base_run()};
    change(given);
    all.push_back(std::move(given));
  };
  const auto in_bf16 = [](Case& given) {
    given.run.options.compute = DType::kBF16;
    given.loss_limit = 1e-3;
    given.weight_limit = 1e-2;
  };
  add("f32", [](Case&) {});
  add("one document over all ranks", [](Case& given) {
    given.run.options.batch.max_length = 64;
    given.run.batches = batches_of(given.run, {64});
  });
  add("documents that end where chunks do", [](Case& given) {
    given.run.batches = batches_of(given.run, {16, 32, 16});
  });
  add("rows of no document", [](Case& given) { given.run.batches = batches_of(given.run, {30}); });
  add("tied, biases, head norms", [](Case& given) {
    ModelConfig& config = given.run.config;
    config.tie_word_embeddings = true;
    config.has_qkv_bias = config.has_output_bias = config.has_mlp_bias = config.has_qk_norm = true;
  });
  add("one key head, ids that nothing divides", [](Case& given) {
    given.run.config.num_key_value_heads = 1;
    given.run.config.vocab_size = 101;
    given.run.options.z_loss = 1e-3;
  });
  for (const int64_t window : {3, 20}) {
    add("a window of " + std::to_string(window), [&](Case& given) { given.run.config.sliding_window = window; });
  }
  add("ALiBi", [](Case& given) { given.run.config.positions = Positions::kAlibi; });
  for (const Recompute recompute :
       {Recompute::kNormAct, Recompute::kAttention, Recompute::kKeepAttention, Recompute::kBlock}) {
    add("recomputation " + std::to_string(static_cast<int>(recompute)),
        [&](Case& given) { given.run.options.recompute = recompute; });
  }
  add("recomputation by segments", [](Case& given) {
    given.run.options.recompute = Recompute::kEveryK;
    given.run.options.recompute_every = 2;
  });
  add("recomputed blocks in host memory", [](Case& given) {
    given.run.options.recompute = Recompute::kBlock;
    given.run.options.offloads_activations = true;
  });
  add("bf16", in_bf16);
  add("bf16 with remainders and a bf16 stream", [&](Case& given) {
    in_bf16(given);
    given.run.options.master = MasterWeights::kBF16Remainder;
    given.run.options.residual = DType::kBF16;
  });
  add("bf16 gradients", [&](Case& given) {
    in_bf16(given);
    given.run.options.gradient = DType::kBF16;
  });
  return all;
}

TEST(ContextRanks, GiveTheLossesAndWeightsOfOneWithinRounding) {
  for (Case& given : cases()) {
    for (const bool packs : {true, false}) {
      given.run.packs = packs;
      const Outcome expected = train({}, given.run);
      for (const int64_t ranks : {2, 4}) {
        SCOPED_TRACE(given.name + (packs ? ", packed, ranks: " : ", ranks: ") + std::to_string(ranks));
        expect_near(train({.context_ranks = ranks}, given.run), expected, given.loss_limit, given.weight_limit);
      }
    }
  }
}

TEST(ContextRanks, ThreeShareRowsThatNoTileDivides) {
  RankedRun run = base_run();
  run.config.max_position_embeddings = 66;
  run.options.batch = {.num_tokens = 66, .max_documents = 4, .max_length = 66};
  for (const auto& lengths : {std::vector<int64_t>{66}, {20, 13, 32}, {11, 22, 33}}) {
    run.batches = batches_of(run, lengths);
    expect_near(train({.context_ranks = 3}, run), train({}, run), 2e-7, 2e-5);
  }
}

// Several tiles of queries and keys in every chunk.
TEST(ContextRanks, ShareLongDocuments) {
  RankedRun run = base_run();
  run.config.max_position_embeddings = 600;
  run.options.batch = {.num_tokens = 600, .max_documents = 4, .max_length = 600};
  for (const int64_t window : {0, 100, 250}) {
    run.config.sliding_window = window;
    for (const auto& lengths : {std::vector<int64_t>{600}, {150, 300, 130}}) {
      run.batches = batches_of(run, lengths);
      expect_near(train({.context_ranks = 2}, run), train({}, run), 2e-7, 2e-5);
    }
  }
}

TEST(ContextRanks, GiveTheSameBitsAgain) {
  for (const DType compute : {DType::kF32, DType::kBF16}) {
    RankedRun run = base_run();
    run.options.compute = compute;
    const Layout layout{.context_ranks = 4};
    expect_same_bits(train(layout, run), train(layout, run));
  }
}

TEST(ContextRanks, ComposeWithReplicasAndAccumulation) {
  const Outcome expected = train({}, base_run(), 4);
  for (const bool shards_gradients : {false, true}) {
    RankedRun run = base_run();
    run.options.shards_gradients = shards_gradients;
    for (const Layout& layout : {Layout{.context_ranks = 2}, Layout{.context_ranks = 2, .replicas = 2}}) {
      SCOPED_TRACE(layout.text());
      expect_near(train(layout, run, 4), expected, 2e-7, 2e-5);
    }
  }
}

TEST(ContextRanks, ComposeWithTensorRanksAndStages) {
  for (const bool is_tied : {false, true}) {
    RankedRun run = base_run();
    run.config.tie_word_embeddings = is_tied;
    run.config.has_qk_norm = true;
    const Outcome expected = train({}, run, 2);
    for (const Layout& layout : {Layout{.context_ranks = 2, .tensor_ranks = 2}, Layout{.context_ranks = 2, .stages = 2},
                                 Layout{.context_ranks = 2, .tensor_ranks = 2, .stages = 2},
                                 Layout{.context_ranks = 2, .replicas = 2, .tensor_ranks = 2}}) {
      SCOPED_TRACE(layout.text());
      expect_near(train(layout, run, 2), expected, 4e-7, 4e-5);
    }
  }
}

// What a stage adds and sends has the bits of a block that goes on.
TEST(ContextRanks, StagesChangeNoBitOfThem) {
  const RankedRun run = base_run();
  expect_same_bits(train({.context_ranks = 2, .stages = 2}, run, 2), train({.context_ranks = 2}, run, 2));
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

TEST(ContextRanks, EvaluateAsOneDoes) {
  std::mutex mutex;
  std::optional<EvalResult> expected;
  for (const Layout& layout : {Layout{}, Layout{.context_ranks = 2}, Layout{.context_ranks = 2, .replicas = 2}}) {
    const RankedRun run = with_layout(base_run(), layout, layout.replicas);
    on_ranks(layout.ranks(), run, [&](TinyRun& mine) {
      const EvalResult found = *mine.trainer.evaluate(BatchList(run.batches), 5);
      const std::lock_guard lock(mutex);
      if (!expected) expected = found;
      EXPECT_NEAR(found.loss, expected->loss, 1e-7 * expected->loss);
      EXPECT_EQ(found.supervised_tokens, expected->supervised_tokens);
    });
  }
}

TEST(ContextRanks, AllocateExactlyWhatThePlanOfEveryRankSaysAndLessThanOne) {
  for (const bool packs : {true, false}) {
    RankedRun run = base_run();
    run.options.compute = DType::kBF16;
    run.packs = packs;
    std::array<int64_t, 4> persistent{}, arena{};
    on_ranks(4, with_layout(run, {.context_ranks = 4}), [&](TinyRun& mine) {
      const MemoryPlan& plan = *mine.executor.program().memory;
      const auto rank = static_cast<size_t>(mine.executor.program().options.context_rank());
      persistent[rank] = plan.persistent_bytes();
      arena[rank] = plan.arena_bytes();
      EXPECT_EQ(mine.executor.allocated_bytes(), plan.total_bytes());
    });
    for (size_t rank = 1; rank < 4; ++rank) {
      EXPECT_EQ(persistent[rank], persistent[0]);
      EXPECT_EQ(arena[rank], arena[0]);
    }
    on_ranks(1, run, [&](TinyRun& one) { EXPECT_LT(arena[0], one.executor.program().memory->arena_bytes()); });
  }
}

TEST(ContextRanks, SaveWhatAnyOtherLayoutResumesFrom) {
  const auto run_of = [](const Layout& layout) {
    RankedRun run = base_run();
    run.options.compute = DType::kBF16;
    run.config.vocab_size = 101;
    run.packs = layout.context_ranks != 2;
    return with_layout(run, layout, 2);
  };
  for (const Layout& saving : {Layout{.context_ranks = 2}, Layout{}}) {
    SavedRun saved;
    const Outcome expected = train_and_save(saving.ranks(), run_of(saving), 2, saved);
    std::vector<double> losses;
    for (const Layout& layout :
         {Layout{}, Layout{.context_ranks = 2}, Layout{.context_ranks = 4}, Layout{.context_ranks = 2, .replicas = 2},
          Layout{.context_ranks = 2, .tensor_ranks = 2}, Layout{.context_ranks = 2, .stages = 2}}) {
      SCOPED_TRACE(layout.text());
      on_ranks(layout.ranks(), run_of(layout), [&](TinyRun& mine) {
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

TEST(ContextRanks, ANanOnOneRankSkipsTheStepOnAll) {  // fault:C1
  RankedRun run = with_layout(base_run(), {.context_ranks = 3});
  run.options.batch.num_tokens = 66;
  run.batches = batches_of(run, {32, 2, 32});
  run.trainer.nan_limit = 3;
  std::array<std::vector<bool>, 3> skipped;
  on_ranks(3, run, [&](TinyRun& mine) {
    const auto rank = static_cast<size_t>(mine.executor.program().options.world_rank());
    std::vector<float> norm = get_parameter(mine.executor, 1);
    const float kept = norm[0];
    for (int step = 0; step < 3; ++step) {
      norm[0] = rank == 1 && step == 1 ? std::nanf("") : kept;
      if (rank == 1) set_parameter(mine.executor, 1, norm);
      skipped[rank].push_back(mine.trainer.step_and_finish().skipped);
      norm = get_parameter(mine.executor, 1);
    }
  });
  for (const auto& of_rank : skipped) EXPECT_EQ(of_rank, (std::vector<bool>{false, true, false}));
}

TEST(ContextRanks, ABadTokenEndsAllAndIsCountedOnce) {
  RankedRun run = with_layout(base_run(), {.context_ranks = 2});
  run.batches[0].ids[40] = 96;
  std::array<std::string, 2> errors;
  on_ranks(2, run, [&](TinyRun& mine) {
    errors[static_cast<size_t>(mine.executor.program().options.world_rank())] =
        error_text<DataError>([&] { mine.trainer.step_and_finish(); });
  });
  for (const std::string& error : errors) EXPECT_NE(error.find("in step 1; got 1"), std::string::npos) << error;
}

TEST(ContextRanks, ARankThatStopsEndsTheOthersWithAMessage) {
  const RankedRun run = with_layout(base_run(), {.context_ranks = 2});
  std::string error;
  const auto leave = [&] {
    on_ranks(2, run, [&](TinyRun& mine) {
      if (mine.executor.program().options.context_rank() == 1) {
        mine.trainer.step_and_finish();
        throw DeviceError("test", "the other rank is lost");
      }
      // Who stops may do so before the end of the first step has come through here.
      error = error_text<CommError>([&] {
        mine.trainer.step_and_finish();
        mine.trainer.step_and_finish();
      });
    });
  };
  EXPECT_THROW(leave(), DeviceError);
  EXPECT_NE(error.find("rank 1"), std::string::npos) << error;
}

// Weights are whole on each, so the first can continue a text by itself.
TEST(ContextRanks, TheFirstAloneSamplesAsOneDoes) {
  const auto logits_of = [](TinyRun& run) {
    Executor& executor = run.executor;
    const GenerationTensors& tensors = executor.program().generation;
    const std::vector<int32_t> ids = {3, 1, 4, 1}, positions = {0, 1, 2, 3}, past = {0};
    executor.write(tensors.prefill_ids, ids.data(), 16);
    executor.write(tensors.prefill_positions, positions.data(), 16);
    executor.write(tensors.past_lengths, past.data(), 4);
    executor.run(Phase::kPrefill);
    std::vector<float> logits(96);
    executor.read(tensors.logits, logits.data(), 96 * 4);
    return logits;
  };
  RankedRun run = base_run();
  run.options.generation = GenerationShape{.capacity = 8, .prefill_rows = 4};
  std::vector<float> expected, found;
  on_ranks(1, run, [&](TinyRun& one) { expected = logits_of(one); });
  on_ranks(2, with_layout(run, {.context_ranks = 2}), [&](TinyRun& mine) {
    mine.trainer.make_weights_whole();  // all meet here, as in a run
    if (mine.executor.program().options.world_rank() == 0) found = logits_of(mine);
  });
  EXPECT_EQ(found, expected);
}

TEST(ContextRanks, RefuseWhatTheyCannotShareByItsName) {
  class NoParts final : public BackendSizes {
   public:
    bool exact() const override { return true; }
    bool packs_weights(DType) const override { return false; }
    bool has_attention_parts() const override { return false; }
    int64_t packed_bytes(const LinearShape&, op::PackForm) const override { return 0; }
    int64_t matmul_forward_scratch_bytes(const LinearShape&) const override { return 0; }
    int64_t matmul_backward_input_scratch_bytes(const LinearShape&) const override { return 0; }
    int64_t matmul_backward_weight_scratch_bytes(const LinearShape&) const override { return 0; }
    int64_t attention_forward_scratch_bytes(const op::AttentionShape&, int64_t, DType) const override { return 0; }
    int64_t attention_backward_scratch_bytes(const op::AttentionShape&, int64_t, DType) const override { return 0; }
  };
  const auto backend = make_cpu_backend({.threads = 1});
  const auto refusal = [&](const std::function<void(ProgramOptions&)>& change, const BackendSizes* sizes = nullptr) {
    ProgramOptions options = tiny_program_options();
    options.context_ranks = options.data_ranks = 2;
    change(options);
    return error_text<ConfigError>(
        [&] { make_llama_program(tiny_model(), options, sizes == nullptr ? backend->sizes() : *sizes); });
  };
  const auto expect = [&](const std::string& text, const std::string& word) {
    EXPECT_NE(text.find(word), std::string::npos) << text;
  };
  const NoParts no_parts;
  expect(refusal([](ProgramOptions&) {}, &no_parts), "cluster.cp");
  const std::string rows = refusal([](ProgramOptions& options) { options.batch.num_tokens = 66; });
  expect(rows, "train.micro_batch x data.seq_len");
  expect(rows, "got 66 tokens, cluster.cp = 2");
  expect(rows, "a multiple of 4");
  expect(refusal([](ProgramOptions& options) {
           options.batch.num_tokens = 60;
           options.tensor_ranks = 4;
         }),
         "a multiple of 8");
  expect(refusal([](ProgramOptions& options) {
           options.compute = DType::kBF16;
           options.fp8 = Fp8Options{};
         }),
         "precision.matmul");
  expect(refusal([](ProgramOptions& options) { options.sync_small_every = 2; }), "distribution.sync_small_every");
  expect(refusal([](ProgramOptions& options) { options.has_checksums = true; }), "device.verify_every");
}

}  // namespace
}  // namespace litespark
