// SPDX-License-Identifier: Apache-2.0
// Norms and biases that ranks update by themselves between synchronisations: exactly what the page on data parallelism
// says, held against ranks that are runs of their own.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <memory>
#include <mutex>

#include "core/error.h"
#include "data/synthetic_source.h"
#include "support/error_text.h"
#include "train/rank_runs.h"
#include "train/run_loop.h"
#include "train/saved_run.h"

namespace litespark {
namespace {

using Values = std::vector<float>;

RankedRun cached_run(int64_t every, int64_t accumulation = 1) {
  RankedRun run;
  run.batches = twelve_batches();
  run.config.has_qkv_bias = run.config.has_output_bias = true;
  run.options.sync_small_every = every;
  run.options.accumulates = accumulation > 1;
  run.trainer.accumulation = accumulation;
  run.trainer.clip_norm = 0;
  return run;
}

bool is_small(const Executor& executor, size_t param) {
  return !executor.program().params.params[param].is_matrix();
}

Values read_all_of(const Executor& executor, TensorId id) {
  Values values(static_cast<size_t>(executor.program().tensors[id].shape.num_elements()));
  read_floats(executor, id, values);
  return values;
}

/// Norms and biases of one rank with their moments, one behind the other.
Values small_state(const Executor& executor) {
  Values all;
  for (size_t p = 0; p < executor.program().param_tensors.size(); ++p) {
    if (!is_small(executor, p)) continue;
    const ParamTensors& tensors = executor.program().param_tensors[p];
    for (const TensorId id : {tensors.master, tensors.first_moment, tensors.second_moment}) {
      const Values values = read_all_of(executor, id);
      all.insert(all.end(), values.begin(), values.end());
    }
  }
  return all;
}

/// The definition: `ranks` runs of one rank each, which tell each other the gradients of matrices in every step, and
/// their norms and biases every `every` steps.
class Definition {
 public:
  Definition(int ranks, const RankedRun& run, int64_t every) : run_(run), every_(every) {
    RankedRun alone = run;
    alone.options.sync_small_every = 1;
    alone.options.shards_gradients = false;
    for (int rank = 0; rank < ranks; ++rank) {
      auto backend = make_cpu_backend({.threads = 1});
      Program program = make_llama_program(alone.config, alone.options, backend->sizes());
      replicas_.push_back(
          std::make_unique<TinyRun>(std::move(program), run.batches, run.trainer, std::move(backend), nullptr));
    }
  }

  /// The step's loss and global norm.
  std::pair<double, double> step() {
    const auto ranks = static_cast<int64_t>(replicas_.size());
    const StepState inputs{.learning_rate = static_cast<float>(run_.trainer.schedule.at(steps_)), .clip_norm = 0};
    double loss = 0;
    int64_t tokens = 0;
    for (int64_t rank = 0; rank < ranks; ++rank) {
      Executor& executor = of(rank);
      executor.begin_step(inputs);
      for (int64_t micro = 0; micro < run_.trainer.accumulation; ++micro) {
        const int64_t index = (steps_ * run_.trainer.accumulation + micro) * ranks + rank;
        upload_batch(executor, run_.batches[static_cast<size_t>(index) % run_.batches.size()]);
        executor.run(micro == 0 ? Phase::kTrainFirst : Phase::kTrainNext);
      }
      loss += executor.read_state().loss_sum;
      tokens += executor.read_state().supervised_tokens;
    }
    const double square_sum = tell_gradients();
    for (int64_t rank = 0; rank < ranks; ++rank) update(of(rank), loss, tokens);
    if (++steps_ % every_ == 0) average_small();
    return {loss / static_cast<double>(tokens), std::sqrt(square_sum) / static_cast<double>(tokens)};
  }

  Executor& of(int64_t rank) { return replicas_[static_cast<size_t>(rank)]->executor; }

 private:
  static void update(Executor& executor, double loss, int64_t tokens) {
    StepState state = executor.read_state();
    state.loss_sum = loss;
    state.supervised_tokens = tokens;
    executor.write_state(state);
    executor.run(Phase::kOptimizer);
    executor.run(Phase::kPack);
  }

  /// Matrices get the sum in rank order, what is small each rank's own times their number. Returns the square sum.
  double tell_gradients() {
    const auto ranks = static_cast<double>(replicas_.size());
    double square_sum = 0;
    for (size_t p = 0; p < of(0).program().params.params.size(); ++p) {
      const TensorId id = of(0).program().param_tensors[p].gradient;
      Values total;
      for (const auto& replica : replicas_) {
        Values own = read_all_of(replica->executor, id);
        if (is_small(of(0), p)) {
          for (float& value : own) {
            square_sum += ranks * double{value} * double{value};
            value *= static_cast<float>(ranks);
          }
          write_floats(replica->executor, id, own);
        } else if (total.empty()) {
          total = own;
        } else {
          for (size_t i = 0; i < own.size(); ++i) total[i] += own[i];
        }
      }
      if (is_small(of(0), p)) continue;
      for (const float value : total) square_sum += double{value} * double{value};
      for (const auto& replica : replicas_) write_floats(replica->executor, id, total);
    }
    return square_sum;
  }

  void average_small() {
    for (size_t p = 0; p < of(0).program().param_tensors.size(); ++p) {
      if (!is_small(of(0), p)) continue;
      const ParamTensors& tensors = of(0).program().param_tensors[p];
      for (const TensorId id : {tensors.master, tensors.first_moment, tensors.second_moment}) average(id);
    }
  }

  void average(TensorId id) {
    Values mean = read_all_of(of(0), id);
    for (size_t rank = 1; rank < replicas_.size(); ++rank) {
      const Values other = read_all_of(replicas_[rank]->executor, id);
      for (size_t i = 0; i < mean.size(); ++i) mean[i] += other[i];
    }
    for (float& value : mean) value = static_cast<float>(double{value} / static_cast<double>(replicas_.size()));
    for (const auto& replica : replicas_) write_floats(replica->executor, id, mean);
  }

  const RankedRun run_;
  int64_t every_;
  int64_t steps_ = 0;
  std::vector<std::unique_ptr<TinyRun>> replicas_;
};

void expect_defined_bits(int ranks, const RankedRun& run, int64_t every, int steps) {
  Definition definition(ranks, run, every);
  std::vector<std::pair<double, double>> expected;
  std::vector<Values> states;  // of each step, each rank
  for (int step = 0; step < steps; ++step) {
    expected.push_back(definition.step());
    for (int rank = 0; rank < ranks; ++rank) states.push_back(small_state(definition.of(rank)));
  }
  on_ranks(ranks, run, [&](TinyRun& mine) {
    const int64_t rank = mine.executor.program().options.data_rank;
    for (int step = 0; step < steps; ++step) {
      const StepRecord record = mine.trainer.step_and_finish();
      const auto [loss, norm] = expected[static_cast<size_t>(step)];
      EXPECT_EQ(record.loss, loss) << "step " << step;
      EXPECT_NEAR(record.grad_norm / norm, 1.0, 1e-6) << "step " << step;
      EXPECT_EQ(small_state(mine.executor), states[static_cast<size_t>(step * ranks + rank)]) << "step " << step;
    }
    // What is not small is the same on all ranks at every step.
    const Outcome state = gathered_state(mine);
    if (rank != 0) return;
    for (size_t p = 0; p < mine.executor.program().params.params.size(); ++p) {
      const Values values = get_parameter(mine.executor, static_cast<int64_t>(p));
      if (!is_small(mine.executor, p)) {
        EXPECT_EQ(values, get_parameter(definition.of(0), static_cast<int64_t>(p))) << p;
      }
    }
  });
}

TEST(GradientCache, GivesTheBitsOfRanksThatUpdateTheirOwnCopiesAndAverageThem) {  // claim:L8
  for (const int64_t every : {2, 3}) {
    for (const bool packs : {true, false}) {
      for (const int ranks : {2, 4}) {
        SCOPED_TRACE(std::to_string(ranks) + " ranks, every " + std::to_string(every) + (packs ? ", packed" : ""));
        RankedRun run = cached_run(every);
        run.packs = packs;
        expect_defined_bits(ranks, run, every, 7);
      }
    }
  }
}

TEST(GradientCache, AccumulatesOwnGradientsOverMicroBatches) {
  for (const bool shards : {false, true}) {
    RankedRun run = cached_run(2, 3);
    run.options.shards_gradients = shards;
    if (!shards) expect_defined_bits(2, run, 2, 4);
    // ZeRO-2 adds matrices in another order: its own gradients of what is small are those of ZeRO-1 in the first step.
    Values first;
    on_ranks(2, run, [&](TinyRun& mine) {
      mine.trainer.step_and_finish();
      if (mine.executor.program().options.data_rank == 0) first = small_state(mine.executor);
    });
    Definition definition(2, run, 2);
    definition.step();
    EXPECT_EQ(first, small_state(definition.of(0)));
  }
}

TEST(GradientCache, SharedGradientsGiveTheSameBits) {
  RankedRun run = cached_run(2);
  const Outcome expected = train_ranks(3, run, 5);
  run.options.shards_gradients = true;
  const Outcome found = train_ranks(3, run, 5);
  EXPECT_EQ(found.weights, expected.weights);
  EXPECT_EQ(found.second_moment, expected.second_moment);
}

TEST(GradientCache, EveryNumberFormatTrainsAndEndsNearTheExactRun) {
  for (const auto master : {MasterWeights::kF32, MasterWeights::kBF16Remainder, MasterWeights::kBF16}) {
    RankedRun run = cached_run(3);
    run.trainer.clip_norm = 1;
    run.options.compute = DType::kBF16;
    run.options.master = master;
    run.options.moments = master == MasterWeights::kBF16 ? DType::kBF16 : DType::kF32;
    const Outcome cached = train_ranks(2, run, 9);
    run.options.sync_small_every = 1;
    const Outcome exact = train_ranks(2, run, 9);
    EXPECT_NE(cached.weights, exact.weights);
    EXPECT_LT(relative_difference(cached.weights, exact.weights), 0.06);
    EXPECT_NEAR(cached.records.back().loss / exact.records.back().loss, 1.0, 0.01);
  }
}

TEST(GradientCache, CopiesAreApartBetweenAndTheSameBitsAfterASynchronisation) {
  for (const int64_t tensor_ranks : {1, 2}) {
    RankedRun run = cached_run(3);
    run.options.tensor_ranks = tensor_ranks;
    const int ranks = static_cast<int>(2 * tensor_ranks);
    std::vector<std::array<Values, 4>> states(static_cast<size_t>(ranks));
    on_ranks(ranks, run, [&](TinyRun& mine) {
      const auto rank = static_cast<size_t>(mine.executor.program().options.world_rank());
      for (Values& state : states[rank]) {
        mine.trainer.step_and_finish();
        state = small_state(mine.executor);
      }
    });
    const auto peer = static_cast<size_t>(tensor_ranks);  // the same part of the other replica
    EXPECT_NE(states[0][0], states[peer][0]);
    EXPECT_NE(states[0][1], states[peer][1]);
    EXPECT_EQ(states[0][2], states[peer][2]);
    EXPECT_NE(states[0][3], states[peer][3]);
  }
}

TEST(GradientCache, ANanInOneRanksOwnGradientSkipsTheStepOnAll) {  // fault:C1
  RankedRun run = cached_run(2);
  std::array<std::vector<bool>, 2> skipped;
  on_ranks(2, run, [&](TinyRun& mine) {
    const auto rank = static_cast<size_t>(mine.executor.program().options.data_rank);
    mine.trainer.step_and_finish();
    mine.trainer.step_and_finish();
    const Values before = small_state(mine.executor);
    Values norm = get_parameter(mine.executor, 1);
    const float kept = norm[0];
    norm[0] = rank == 1 ? std::numeric_limits<float>::quiet_NaN() : kept;
    set_parameter(mine.executor, 1, norm);
    skipped[rank].push_back(mine.trainer.step_and_finish().skipped);
    norm[0] = kept;
    set_parameter(mine.executor, 1, norm);
    EXPECT_EQ(small_state(mine.executor), before);
    skipped[rank].push_back(mine.trainer.step_and_finish().skipped);
  });
  for (const auto& of_rank : skipped) EXPECT_EQ(of_rank, (std::vector<bool>{true, false}));
}

TEST(GradientCache, ReportsTheLargestDriftInTheStepBehindASynchronisation) {
  for (const int64_t every : {2, 5}) {
    std::array<std::vector<StepRecord>, 2> records;
    on_ranks(2, cached_run(every), [&](TinyRun& mine) {
      auto& of_rank = records[static_cast<size_t>(mine.executor.program().options.data_rank)];
      for (int step = 0; step < 11; ++step) of_rank.push_back(mine.trainer.step_and_finish());
    });
    for (size_t i = 0; i < records[0].size(); ++i) {
      const std::optional<double> drift = records[0][i].copy_drift;
      EXPECT_EQ(drift.has_value(), i > 0 && static_cast<int64_t>(i) % every == 0) << i;
      EXPECT_EQ(drift, records[1][i].copy_drift);
      // AdamW with betas 0.9 and 0.95 moves no weight by more than lr in a step, and the norms are about 1.
      if (!drift) continue;
      EXPECT_LT(*drift, 2.0 * static_cast<double>(every) * 3e-3);
      EXPECT_GT(*drift, 0.0);
    }
  }
}

TEST(GradientCache, EndsTheRunOnAllRanksWhenCopiesDriftApart) {
  std::array<std::string, 2> errors;
  on_ranks(2, cached_run(2), [&](TinyRun& mine) {
    const auto rank = static_cast<size_t>(mine.executor.program().options.data_rank);
    mine.trainer.step_and_finish();
    if (rank == 1) set_parameter(mine.executor, 1, Values(32, 3.0f));
    mine.trainer.step_and_finish();
    errors[rank] = error_text<NumericError>([&] { mine.trainer.step_and_finish(); });
  });
  for (const std::string& error : errors) {
    EXPECT_NE(error.find("distribution.sync_small_every"), std::string::npos) << error;
    EXPECT_NE(error.find("before step 3"), std::string::npos) << error;
  }
}

TEST(GradientCache, AnEvaluationAndASaveBehindASynchronisationChangeNothing) {
  const RankedRun run = cached_run(2);
  const Outcome expected = train_ranks(2, run, 6);
  const SyntheticSource source(3, 96, {.num_tokens = 64, .max_documents = 4, .max_length = 32});
  Outcome found;
  on_ranks(2, run, [&](TinyRun& mine) {
    for (int step = 1; step <= 6; ++step) {
      mine.trainer.step_and_finish();
      if (step % 2 != 0) continue;
      mine.trainer.evaluate(source, 2);
      Outcome state = gathered_state(mine);
      if (mine.executor.program().options.data_rank == 0) found = std::move(state);
    }
  });
  EXPECT_EQ(found.weights, expected.weights);
  EXPECT_EQ(found.first_moment, expected.first_moment);
}

TEST(GradientCache, AStopWaitsForASynchronisationAndAResumeEndsInTheBitsOfTheRunThatWentOn) {  // fault:C5
  const RankedRun run = cached_run(4);
  const Outcome expected = train_ranks(3, run, 12);
  SavedRun saved;
  const auto train = [&](const RunHooks& hooks, bool resumes, Outcome& outcome) {
    on_ranks(3, run, [&](TinyRun& mine) {
      const CheckpointContext context = saved.context(mine);
      const bool is_first = mine.executor.program().options.data_rank == 0;
      if (resumes) {
        mine.trainer.restore(read_checkpoint(saved.store.path_of(8), context, mine.executor).progress);
      }
      CheckpointSaver saver(mine.executor, saved.store, context, {.is_async = false, .writes = is_first});
      run_training(mine.trainer, &saver, nullptr, {.steps = 12, .saves_at_end = false}, hooks);
      Outcome state = gathered_state(mine);
      if (is_first) outcome = std::move(state);
    });
  };
  Outcome found;
  train({.should_stop = [] { return true; }}, false, found);
  EXPECT_EQ(saved.store.newest(), 4);  // asked before step 1, whose message says so
  int asked = 0;
  std::mutex mutex;
  RunHooks later;
  later.should_stop = [&] {
    const std::lock_guard lock(mutex);
    return ++asked > 3 * 4;
  };
  train(later, false, found);
  EXPECT_EQ(saved.store.newest(), 8);
  train({}, true, found);
  EXPECT_EQ(found.weights, expected.weights);
  EXPECT_EQ(found.first_moment, expected.first_moment);
  EXPECT_EQ(found.second_moment, expected.second_moment);
}

TEST(GradientCache, OneRankKnowsNothingOfIt) {
  RankedRun run = cached_run(5);
  const Outcome found = train_ranks(1, run, 3);
  run.options.sync_small_every = 1;
  EXPECT_EQ(found.weights, train_ranks(1, run, 3).weights);
}

}  // namespace
}  // namespace litespark
