// SPDX-License-Identifier: Apache-2.0
// Data parallelism with a shared optimizer (ZeRO-1): ranks, which are threads here, give the losses and weights of one.
#include <gtest/gtest.h>

#include <array>
#include <limits>

#include "core/error.h"
#include "data/synthetic_source.h"
#include "dist/local_world.h"
#include "support/error_text.h"
#include "train/rank_runs.h"
#include "train/run_loop.h"
#include "train/saved_run.h"

namespace litespark {
namespace {

constexpr int kSteps = 5;

struct Case {
  std::string name;
  RankedRun run;
};

RankedRun base_run() {
  RankedRun run;
  run.batches = twelve_batches();
  return run;
}

RankedRun accumulating_run(int64_t accumulation) {
  RankedRun run = base_run();
  run.options.accumulates = accumulation > 1;
  run.trainer.accumulation = accumulation;
  return run;
}

/// Tied and untied, with grouped queries and without, every number format.
std::vector<Case> cases() {
  std::vector<Case> all;
  const auto add = [&](std::string name, const std::function<void(RankedRun&)>& change) {
    RankedRun run = base_run();
    change(run);
    all.push_back({std::move(name), std::move(run)});
  };
  add("f32", [](RankedRun&) {});
  add("tied", [](RankedRun& run) { run.config.tie_word_embeddings = true; });
  add("biases and head norms", [](RankedRun& run) {
    run.config.has_qkv_bias = run.config.has_output_bias = run.config.has_mlp_bias = true;
    run.config.has_qk_norm = true;
  });
  add("every head its own keys", [](RankedRun& run) { run.config.num_key_value_heads = 4; });
  add("bf16", [](RankedRun& run) { run.options.compute = DType::kBF16; });
  add("bf16 with remainders", [](RankedRun& run) {
    run.options.compute = DType::kBF16;
    run.options.master = MasterWeights::kBF16Remainder;
  });
  add("bf16 alone", [](RankedRun& run) {
    run.options.compute = DType::kBF16;
    run.options.master = MasterWeights::kBF16;
    run.options.moments = DType::kBF16;
    run.options.adamw.seed = 3;
    run.config.tie_word_embeddings = true;
  });
  add("bf16 gradients", [](RankedRun& run) {
    run.options.compute = DType::kBF16;
    run.options.gradient = DType::kBF16;
  });
  add("a bucket a matrix", [](RankedRun& run) {
    run.config.has_qkv_bias = run.config.has_mlp_bias = true;
    run.options.bucket_elements = 1;
  });
  add("recomputation by segments", [](RankedRun& run) {
    run.options.recompute = Recompute::kEveryK;
    run.options.recompute_every = 2;
  });
  return all;
}

void expect_same_state(const Outcome& found, const Outcome& expected) {
  EXPECT_EQ(found.weights, expected.weights);
  EXPECT_EQ(found.first_moment, expected.first_moment);
  EXPECT_EQ(found.second_moment, expected.second_moment);
}

void expect_same_bits(const Outcome& found, const Outcome& expected) {
  ASSERT_EQ(found.records.size(), expected.records.size());
  for (size_t i = 0; i < expected.records.size(); ++i) {
    EXPECT_EQ(found.records[i].loss, expected.records[i].loss) << i;
    EXPECT_EQ(found.records[i].grad_norm, expected.records[i].grad_norm) << i;
    EXPECT_EQ(found.records[i].supervised_tokens, expected.records[i].supervised_tokens) << i;
  }
  expect_same_state(found, expected);
}

TEST(DataRanks, GiveTheBitsOfOneRankThatAddsGradientsInTheirOrder) {
  for (Case& given : cases()) {
    for (const bool packs : {true, false}) {
      for (const int ranks : {2, 3, 4}) {
        SCOPED_TRACE(given.name + (packs ? ", packed, ranks: " : ", ranks: ") + std::to_string(ranks));
        given.run.packs = packs;
        expect_same_bits(train_ranks(ranks, given.run, kSteps), train_in_rank_order(ranks, given.run, kSteps));
      }
    }
  }
}

// distribution.at_one_rank: all that several do, told to itself.
TEST(DataRanks, OneRankThatMeetsItselfHasTheBitsOfOneThatMeetsNobody) {
  for (Case& given : cases()) {
    for (const int64_t accumulation : {1, 3}) {
      SCOPED_TRACE(given.name + ", micro-batches: " + std::to_string(accumulation));
      if (given.run.options.gradient == DType::kBF16 && accumulation > 1) continue;
      RankedRun run = given.run;
      run.options.accumulates = accumulation > 1;
      run.trainer.accumulation = accumulation;
      run.packs = accumulation == 1;
      const Outcome expected = train_ranks(1, run, kSteps);
      run.options.meets_itself = true;
      on_ranks(1, run, [](TinyRun& mine) {
        ASSERT_NE(mine.executor.communicator(), nullptr);
        EXPECT_FALSE(mine.executor.program().buckets.empty());
      });
      expect_same_bits(train_ranks(1, run, kSteps), expected);
    }
  }
}

TEST(DataRanks, AccumulateByThemselvesAndReduceTheSumOnce) {
  for (const int64_t accumulation : {2, 3}) {
    RankedRun run = accumulating_run(accumulation);
    for (const bool packs : {true, false}) {
      run.packs = packs;
      expect_same_bits(train_ranks(2, run, kSteps), train_in_rank_order(2, run, kSteps));
    }
  }
}

// A step of so many micro-batches is the same step on any number of ranks; sums in another order round otherwise.
TEST(DataRanks, GiveTheLossesAndWeightsOfOneRankThatAccumulatesWithinRounding) {
  const Outcome expected = train_ranks(1, accumulating_run(12), kSteps);
  for (const int ranks : {2, 3, 4}) {
    SCOPED_TRACE(ranks);
    const Outcome found = train_ranks(ranks, accumulating_run(12 / ranks), kSteps);
    for (size_t i = 0; i < expected.records.size(); ++i) {
      EXPECT_NEAR(found.records[i].loss, expected.records[i].loss, 1e-6 * expected.records[i].loss);
      EXPECT_NEAR(found.records[i].grad_norm, expected.records[i].grad_norm, 1e-5 * expected.records[i].grad_norm);
      EXPECT_EQ(found.records[i].supervised_tokens, expected.records[i].supervised_tokens);
      EXPECT_EQ(found.records[i].tokens, expected.records[i].tokens);
    }
    EXPECT_LT(relative_difference(found.weights, expected.weights), 1e-4);
  }
}

// ZeRO-2. With one micro-batch a step the same sums as ZeRO-1, so the same bits; with several each is summed over ranks
// first.
TEST(DataRanks, ShareGradientsWithoutChangingABit) {
  for (Case& given : cases()) {
    given.run.options.shards_gradients = true;
    for (const bool packs : {true, false}) {
      for (const int ranks : {2, 3}) {
        SCOPED_TRACE(given.name + (packs ? ", packed, ranks: " : ", ranks: ") + std::to_string(ranks));
        given.run.packs = packs;
        RankedRun zero1 = given.run;
        zero1.options.shards_gradients = false;
        expect_same_bits(train_ranks(ranks, given.run, kSteps), train_ranks(ranks, zero1, kSteps));
      }
    }
  }
}

TEST(DataRanks, ShareGradientsOfEveryMicroBatch) {
  for (const int64_t accumulation : {2, 3}) {
    for (const bool is_tied : {true, false}) {
      RankedRun run = accumulating_run(accumulation);
      run.options.shards_gradients = true;
      run.config.tie_word_embeddings = is_tied;
      run.packs = is_tied;
      expect_same_bits(train_ranks(2, run, kSteps), train_in_rank_order(2, run, kSteps));
    }
  }
}

TEST(DataRanks, HoldOnlyTheirPiecesOfGradientsBetweenMicroBatches) {
  RankedRun run = accumulating_run(2);
  run.config.num_hidden_layers = 8;
  const auto gradients = [&](bool shards) {
    run.options.shards_gradients = shards;
    int64_t persistent = 0;
    int64_t total = 0;
    on_ranks(4, run, [&](TinyRun& mine) {
      if (mine.executor.program().options.data_rank != 0) return;
      const MemoryPlan& plan = *mine.executor.program().memory;
      persistent = plan.persistent_by_owner()[static_cast<size_t>(Owner::kGradients)];
      total = plan.total_bytes();
    });
    return std::pair(persistent, total);
  };
  const auto zero1 = gradients(false);
  const auto zero2 = gradients(true);
  EXPECT_EQ(zero2.first * 4, zero1.first);
  EXPECT_LT(zero2.second, zero1.second);
}

TEST(DataRanks, ANanOnOneRankSkipsTheStepOnAll) {  // fault:C1
  RankedRun run = base_run();
  run.trainer.nan_limit = 3;
  std::array<std::vector<StepRecord>, 3> records;
  on_ranks(3, run, [&](TinyRun& mine) {
    const auto rank = static_cast<size_t>(mine.executor.program().options.data_rank);
    records[rank].push_back(mine.trainer.step_and_finish());
    const std::vector<float> before = gathered_state(mine).weights;
    // A norm weight, which every rank has whole: only rank 1 computes with the NaN.
    std::vector<float> norm = get_parameter(mine.executor, 1);
    const float kept = norm[0];
    const auto put = [&](float value) {
      if (rank != 1) return;
      norm[0] = value;
      set_parameter(mine.executor, 1, norm);
    };
    put(std::numeric_limits<float>::quiet_NaN());
    records[rank].push_back(mine.trainer.step_and_finish());
    put(kept);
    EXPECT_EQ(gathered_state(mine).weights, before);
    records[rank].push_back(mine.trainer.step_and_finish());
    EXPECT_EQ(mine.executor.read_state().optimizer_steps, 2);
  });
  for (const auto& of_rank : records) {
    ASSERT_EQ(of_rank.size(), 3u);
    EXPECT_FALSE(of_rank[0].skipped);
    EXPECT_TRUE(of_rank[1].skipped);
    EXPECT_FALSE(of_rank[2].skipped);
  }
}

TEST(DataRanks, ABadTokenOnOneRankEndsAll) {
  RankedRun run = base_run();
  run.batches[1].ids[3] = 96;
  std::array<std::string, 2> errors;
  on_ranks(2, run, [&](TinyRun& mine) {
    errors[static_cast<size_t>(mine.executor.program().options.data_rank)] =
        error_text<DataError>([&] { mine.trainer.step_and_finish(); });
  });
  for (const std::string& error : errors) EXPECT_NE(error.find("outside the vocabulary in step 1"), std::string::npos);
}

TEST(DataRanks, AllocateExactlyWhatThePlanOfEveryRankSays) {
  for (const bool packs : {true, false}) {
    RankedRun run = base_run();
    run.options.compute = DType::kBF16;
    run.packs = packs;
    std::array<int64_t, 4> persistent{}, arena{};
    on_ranks(4, run, [&](TinyRun& mine) {
      const MemoryPlan& plan = *mine.executor.program().memory;
      const auto rank = static_cast<size_t>(mine.executor.program().options.data_rank);
      persistent[rank] = plan.persistent_bytes();
      arena[rank] = plan.arena_bytes();
      EXPECT_EQ(mine.executor.allocated_bytes(), plan.total_bytes());
    });
    for (size_t rank = 1; rank < 4; ++rank) {
      EXPECT_EQ(persistent[rank], persistent[0]);
      EXPECT_EQ(arena[rank], arena[0]);
    }
  }
}

TEST(DataRanks, ShareAnEvaluationAndGetTheLossOfOneRank) {
  const SyntheticSource source(3, 96, {.num_tokens = 64, .max_documents = 4, .max_length = 16, .uniform = true});
  std::vector<double> losses;
  for (const int ranks : {1, 2, 3}) {
    RankedRun run = accumulating_run(6 / ranks);
    run.options.batch = {.num_tokens = 64, .max_documents = 4, .max_length = 16, .uniform = true};
    for (Batch& batch : run.batches) {
      batch.reset(run.options.batch);
      source.fill(static_cast<uint64_t>(&batch - run.batches.data()), batch);
    }
    run.packs = ranks != 2;
    on_ranks(ranks, run, [&](TinyRun& mine) {
      mine.trainer.step_and_finish();
      const auto state = mine.executor.read_state();
      const auto result = mine.trainer.evaluate(source, 5);
      if (mine.executor.program().options.data_rank == 0) losses.push_back(result->loss);
      EXPECT_EQ(result->supervised_tokens, 5 * 64);
      EXPECT_EQ(mine.executor.read_state().optimizer_steps, state.optimizer_steps);
    });
  }
  // The step before it moved the loss by far more.
  for (const double loss : losses) EXPECT_NEAR(loss, losses[0], 1e-6 * losses[0]);
}

TEST(DataRanks, SaveWhatAnyOtherNumberOfRanksResumesFrom) {
  for (const auto master : {MasterWeights::kF32, MasterWeights::kBF16Remainder}) {
    for (const bool packs : {true, false}) {
      RankedRun run = accumulating_run(3);
      run.options.shards_gradients = packs;
      run.options.compute = DType::kBF16;
      run.options.master = master;
      run.packs = packs;
      SavedRun saved;
      const Outcome expected = train_and_save(4, run, 3, saved, packs);
      for (const int ranks : {1, 2, 3, 4}) {
        SCOPED_TRACE(ranks);
        RankedRun resumed = accumulating_run(12 / ranks);
        resumed.options.compute = DType::kBF16;
        resumed.options.master = master;
        resumed.packs = packs;
        on_ranks(ranks, resumed, [&](TinyRun& mine) {
          const ResumedState state = read_checkpoint(saved.store.path_of(3), saved.context(mine), mine.executor);
          mine.trainer.restore(state.progress);
          const Outcome found = gathered_state(mine);
          if (mine.executor.program().options.data_rank == 0) expect_same_state(found, expected);
          EXPECT_EQ(mine.trainer.steps_done(), 3);
          EXPECT_FALSE(mine.trainer.step_and_finish().skipped);
        });
      }
    }
  }
}

TEST(DataRanks, ResumeBitForBitOnAsManyRanks) {
  RankedRun run = base_run();
  run.packs = false;
  run.options.compute = DType::kBF16;
  const Outcome expected = train_ranks(3, run, 4);
  SavedRun saved;
  on_ranks(3, run, [&](TinyRun& mine) {
    mine.trainer.step_and_finish();
    mine.trainer.step_and_finish();
    const CheckpointContext context = saved.context(mine);
    CheckpointSaver saver(mine.executor, saved.store, context,
                          {.is_async = true, .writes = mine.executor.program().options.data_rank == 0});
    saver.save(mine.trainer, {});
    saver.finish();
    // The save used the gradients' memory; the run goes on as if nothing had been.
    mine.trainer.step_and_finish();
    EXPECT_EQ(mine.trainer.step_and_finish().loss, expected.records[3].loss);
  });
  Outcome found;
  on_ranks(3, run, [&](TinyRun& mine) {
    mine.trainer.restore(read_checkpoint(saved.store.path_of(2), saved.context(mine), mine.executor).progress);
    std::vector<StepRecord> records = {mine.trainer.step_and_finish(), mine.trainer.step_and_finish()};
    EXPECT_EQ(records[0].loss, expected.records[2].loss);
    EXPECT_EQ(records[1].tokens, expected.records[3].tokens);
    Outcome state = gathered_state(mine);
    if (mine.executor.program().options.data_rank == 0) found = std::move(state);
  });
  expect_same_state(found, expected);
}

TEST(DataRanks, StopBehindTheSameStepWhicheverWasAsked) {
  RankedRun run = base_run();
  std::array<int64_t, 3> stopped{};
  SavedRun saved;
  on_ranks(3, run, [&](TinyRun& mine) {
    const auto rank = static_cast<size_t>(mine.executor.program().options.data_rank);
    const CheckpointContext context = saved.context(mine);
    CheckpointSaver saver(mine.executor, saved.store, context, {.is_async = false, .writes = rank == 0});
    const RunHooks hooks{.should_stop = [&] { return rank == 2 && mine.trainer.steps_done() >= 4; }};
    EXPECT_EQ(run_training(mine.trainer, &saver, nullptr, {.steps = 100}, hooks), RunEnd::kStopped);
    stopped[rank] = mine.trainer.steps_done();
  });
  // Asked behind step 4: the message of step 5 says so, and step 6 is the last.
  for (const int64_t step : stopped) EXPECT_EQ(step, 6);
  EXPECT_EQ(saved.store.newest(), 6);
}

/// Calls end as ever, as those do that a GPU is told to give up, and what they left is no sum.
class LosesAPeer final : public Communicator {
 public:
  explicit LosesAPeer(Communicator& real) : real_(real) {}
  void lose() { is_lost_ = true; }

  std::string name() const override { return real_.name(); }
  int rank() const override { return real_.rank(); }
  int size() const override { return real_.size(); }
  bool is_ordered() const override { return real_.is_ordered(); }
  void set_step(int64_t step) override { real_.set_step(step); }
  CommTicket all_reduce(const Tensor& data, Reduction how) override { return real_.all_reduce(data, how); }
  CommTicket reduce_scatter(const Tensor& shard, const Tensor& data, Reduction how) override {
    return real_.reduce_scatter(shard, data, how);
  }
  CommTicket all_gather(const Tensor& data, const Tensor& shard) override { return real_.all_gather(data, shard); }
  CommTicket broadcast(const Tensor& data, int root) override { return real_.broadcast(data, root); }
  CommTicket all_to_all(const Tensor& in, const Tensor& out) override { return real_.all_to_all(in, out); }
  CommTicket exchange(const Tensor& in, int source, const Tensor& out, int destination) override {
    return real_.exchange(in, source, out, destination);
  }
  void wait(CommTicket ticket) override { real_.wait(ticket); }
  void check_alive() override {
    if (is_lost_) throw CommError("test", "a peer is lost");
  }
  std::unique_ptr<Communicator> split(int color) override { return real_.split(color); }
  void barrier() override { real_.barrier(); }
  void abort(const std::string& why) override { real_.abort(why); }

 private:
  Communicator& real_;
  bool is_lost_ = false;
};

TEST(DataRanks, BelieveNoStepOfWhichAPeerWasLost) {
  run_local_ranks(2, {}, [&](Communicator& real) {
    LosesAPeer ranks(real);
    ProgramOptions options = tiny_program_options();
    options.data_ranks = 2;
    options.data_rank = real.rank();
    TinyRun run(tiny_model(), options, twelve_batches(), tiny_trainer_options(), make_cpu_backend({.threads = 1}),
                &ranks);
    EXPECT_EQ(run.trainer.step_and_finish().step, 1);
    ranks.lose();
    EXPECT_THROW(run.trainer.step_and_finish(), CommError);
  });
}

TEST(DataRanks, RefuseAProgramOfAnotherRank) {
  const auto backend = make_cpu_backend({.threads = 1});
  ProgramOptions options = tiny_program_options();
  options.data_ranks = 2;
  options.data_rank = 1;
  const std::string text = error_text<InternalError>(
      [&] { Executor(make_llama_program(tiny_model(), options, backend->sizes()), *backend); });
  EXPECT_NE(text.find("rank 0 of 1"), std::string::npos) << text;
  EXPECT_NE(text.find("rank 1 of 2"), std::string::npos) << text;
}

}  // namespace
}  // namespace litespark
