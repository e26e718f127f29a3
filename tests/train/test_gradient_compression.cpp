// SPDX-License-Identifier: Apache-2.0
// Gradients that ranks tell each other in 16 bits: exactly what the page on data parallelism says, held against ranks
// that are runs of their own; what is kept for the next step, over resumes and skipped steps.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <memory>

#include "model/gather.h"
#include "support/error_text.h"
#include "train/compared_runs.h"
#include "train/rank_runs.h"
#include "train/saved_run.h"

namespace litespark {
namespace {

using Values = std::vector<float>;

constexpr Compression kFormats[] = {Compression::kBF16, Compression::kFP16};

struct Form {
  Compression format = Compression::kBF16;
  bool has_feedback = true;
  int64_t accumulation = 1;
  bool shards = false;  ///< ZeRO-2
};

RankedRun compressed_run(const Form& form) {
  RankedRun run;
  run.batches = twelve_batches();
  run.config.has_qkv_bias = run.config.has_output_bias = true;
  run.config.vocab_size = 101;  // no multiple of anything
  run.options.compression = form.format;
  run.options.has_error_feedback = form.has_feedback;
  run.options.shards_gradients = form.shards;
  run.options.accumulates = form.accumulation > 1;
  run.trainer.accumulation = form.accumulation;
  return run;
}

RankedRun plain_run_of(RankedRun run) {
  run.options.compression = Compression::kNone;
  return run;
}

Values read_all_of(const Executor& executor, TensorId id) {
  Values values(static_cast<size_t>(executor.program().tensors[id].shape.num_elements()));
  read_floats(executor, id, values);
  return values;
}

/// The definition, for bf16, whose messages know nothing of blocks: `ranks` runs of one rank each, which tell each
/// other their gradients rounded and keep the rest.
class Definition {
 public:
  Definition(int ranks, const RankedRun& run) : run_(run) {
    RankedRun alone = plain_run_of(run);
    alone.options.shards_gradients = false;
    for (int rank = 0; rank < ranks; ++rank) {
      auto backend = make_cpu_backend({.threads = 1});
      Program program = make_llama_program(alone.config, alone.options, backend->sizes());
      replicas_.push_back(
          std::make_unique<TinyRun>(std::move(program), run.batches, run.trainer, std::move(backend), nullptr));
      residuals_.emplace_back(program_of(0).params.params.size());
    }
  }

  double step() {
    const StepState inputs{.learning_rate = static_cast<float>(run_.trainer.schedule.at(steps_)),
                           .clip_norm = static_cast<float>(run_.trainer.clip_norm)};
    // ZeRO-2 tells each micro-batch, ZeRO-1 their sum.
    const int64_t accumulation = run_.trainer.accumulation;
    const int64_t micro_batches = run_.options.shards_gradients ? 1 : accumulation;
    double loss = 0;
    int64_t tokens = 0;
    std::vector<Values> total;
    for (int64_t first = 0; first < accumulation; first += micro_batches) {
      std::vector<Values> sums;
      for (size_t rank = 0; rank < replicas_.size(); ++rank) {
        Executor& executor = replicas_[rank]->executor;
        executor.begin_step(inputs);
        for (int64_t micro = first; micro < first + micro_batches; ++micro) {
          const int64_t index = (steps_ * accumulation + micro) * std::ssize(replicas_) + static_cast<int64_t>(rank);
          upload_batch(executor, run_.batches[static_cast<size_t>(index) % run_.batches.size()]);
          executor.run(micro == first ? Phase::kTrainFirst : Phase::kTrainNext);
        }
        loss += executor.read_state().loss_sum;
        tokens += executor.read_state().supervised_tokens;
        add(sums, told_by(rank));
      }
      add(total, sums);
    }
    for (const auto& replica : replicas_) update(replica->executor, total, loss, tokens);
    ++steps_;
    return loss / static_cast<double>(tokens);
  }

  Values parameter(size_t index) const { return get_parameter(replicas_[0]->executor, static_cast<int64_t>(index)); }

 private:
  const Program& program_of(size_t rank) const { return replicas_[rank]->executor.program(); }

  static void add(std::vector<Values>& sums, const std::vector<Values>& more) {
    if (sums.empty()) {
      sums = more;
      return;
    }
    for (size_t p = 0; p < sums.size(); ++p) {
      for (size_t i = 0; i < sums[p].size(); ++i) sums[p][i] += more[p][i];
    }
  }

  /// What a rank says of its gradients, one a parameter.
  std::vector<Values> told_by(size_t rank) {
    std::vector<Values> told;
    for (size_t p = 0; p < residuals_[rank].size(); ++p) {
      const Values gradient = read_all_of(replicas_[rank]->executor, program_of(rank).param_tensors[p].gradient);
      Values& residual = residuals_[rank][p];
      residual.resize(gradient.size());
      told.emplace_back();
      for (size_t i = 0; i < gradient.size(); ++i) {
        const float sum = gradient[i] + residual[i];
        told.back().push_back(to_float(to_bf16(sum)));
        residual[i] = run_.options.has_error_feedback ? sum - told.back().back() : 0;
      }
    }
    return told;
  }

  void update(Executor& executor, const std::vector<Values>& gradients, double loss, int64_t tokens) const {
    for (size_t p = 0; p < gradients.size(); ++p) {
      write_floats(executor, executor.program().param_tensors[p].gradient, gradients[p]);
    }
    StepState state = executor.read_state();
    state.loss_sum = loss;
    state.supervised_tokens = tokens;
    state.gradient_square_sum = 0;
    executor.write_state(state);
    executor.run(Phase::kOptimizer);
    executor.run(Phase::kPack);
  }

  const RankedRun run_;
  int64_t steps_ = 0;
  std::vector<std::unique_ptr<TinyRun>> replicas_;
  std::vector<std::vector<Values>> residuals_;  ///< of each rank and parameter
};

void expect_defined_bits(int ranks, const RankedRun& run) {
  Definition definition(ranks, run);
  std::vector<double> losses;
  constexpr int kSteps = 5;
  for (int step = 0; step < kSteps; ++step) losses.push_back(definition.step());
  on_ranks(ranks, run, [&](TinyRun& mine) {
    for (const double loss : losses) EXPECT_EQ(mine.trainer.step_and_finish().loss, loss);
    gathered_state(mine);  // makes weights whole
    for (size_t p = 0; p < mine.executor.program().params.params.size(); ++p) {
      EXPECT_EQ(get_parameter(mine.executor, static_cast<int64_t>(p)), definition.parameter(p)) << p;
    }
  });
}

TEST(GradientCompression, GivesTheBitsOfRanksThatTellRoundedGradientsAndKeepTheRest) {
  for (const int ranks : {2, 3, 4}) {
    for (const bool has_feedback : {true, false}) {
      SCOPED_TRACE(std::to_string(ranks) + (has_feedback ? " ranks, with feedback" : " ranks"));
      RankedRun run = compressed_run({.has_feedback = has_feedback});
      expect_defined_bits(ranks, run);
      run.config.tie_word_embeddings = true;
      run.options.compute = DType::kBF16;
      run.options.bucket_elements = 1;
      expect_defined_bits(ranks, run);
    }
  }
}

TEST(GradientCompression, TellsTheSumOfMicroBatchesOnceOrEachOfThemWithSharedGradients) {
  for (const bool shards : {false, true}) {
    SCOPED_TRACE(shards ? "ZeRO-2" : "ZeRO-1");
    expect_defined_bits(2, compressed_run({.accumulation = 3, .shards = shards}));
  }
}

/// What lies between parameters in memory that others have used must not move the power of two of a block.
TEST(GradientCompression, SharedGradientsAndPackedCopiesChangeNoBit) {
  for (const Compression format : kFormats) {
    for (const int ranks : {2, 3}) {
      RankedRun run = compressed_run({.format = format});
      run.options.bucket_elements = ranks == 2 ? 1 : 0;
      const Outcome expected = train_ranks(ranks, run, 4);
      run.packs = false;
      expect_same_bits(train_ranks(ranks, run, 4), expected);
      run.options.shards_gradients = true;
      expect_same_bits(train_ranks(ranks, run, 4), expected);
    }
  }
}

/// What the first rank has of the reduced gradients of two micro-batches, on average of so many steps in which nothing
/// moves.
Values mean_gradient(const RankedRun& base, int steps) {
  RankedRun run = base;
  run.batches.resize(2);
  run.trainer.schedule.peak = 1e-30;
  std::vector<double> sum;
  on_ranks(2, run, [&](TinyRun& mine) {
    for (int step = 0; step < steps; ++step) {
      mine.trainer.step_and_finish();
      if (mine.executor.program().options.data_rank != 0) continue;
      Values gradient;
      for (const ParamShard& shard : mine.executor.program().shards) {
        if (shard.count == 0) continue;
        const Values values = read_all_of(mine.executor, shard.tensors.gradient);
        gradient.insert(gradient.end(), values.begin(), values.end());
      }
      sum.resize(gradient.size());
      for (size_t i = 0; i < gradient.size(); ++i) sum[i] += double{gradient[i]};
    }
  });
  Values mean;
  for (const double value : sum) mean.push_back(static_cast<float>(value / steps));
  return mean;
}

TEST(GradientCompression, TheMeanOfAConstantGradientIsRightWithFeedbackAndWrongWithout) {
  for (const Compression format : kFormats) {
    for (const bool shards : {false, true}) {
      const RankedRun with = compressed_run({.format = format, .shards = shards});
      const RankedRun without = compressed_run({.format = format, .has_feedback = false, .shards = shards});
      const Values exact = mean_gradient(plain_run_of(with), 1);
      const double once = relative_difference(mean_gradient(without, 1), exact);
      EXPECT_GT(once, format == Compression::kBF16 ? 1e-3 : 1e-4);
      EXPECT_LT(once, format == Compression::kBF16 ? 3e-3 : 4e-4);
      constexpr int kSteps = 20;
      EXPECT_NEAR(relative_difference(mean_gradient(without, kSteps), exact) / once, 1.0, 1e-6);
      EXPECT_LT(relative_difference(mean_gradient(with, kSteps), exact), 2 * once / kSteps);
    }
  }
}

struct Layout {
  int64_t data_ranks = 2, tensor_ranks = 1, stages = 1;
  bool is_tied = false;
  int64_t sync_small_every = 1;

  int ranks() const { return static_cast<int>(data_ranks * tensor_ranks * stages); }
  std::string text() const {
    return std::to_string(data_ranks) + " data, " + std::to_string(tensor_ranks) + " tensor, " +
           std::to_string(stages) + " stages" + (is_tied ? ", tied" : "") +
           (sync_small_every > 1 ? ", averaged norms" : "");
  }
};

RankedRun run_of(const Layout& layout, const Form& form) {
  RankedRun run = compressed_run(form);
  run.options.tensor_ranks = layout.tensor_ranks;
  run.options.stages = layout.stages;
  run.options.sync_small_every = layout.sync_small_every;
  run.config.tie_word_embeddings = layout.is_tied;
  run.config.vocab_size = 102;
  return run;
}

std::vector<Layout> layouts() {
  return {{.data_ranks = 3},
          {.data_ranks = 2, .tensor_ranks = 2},
          {.data_ranks = 2, .stages = 2},
          {.data_ranks = 2, .stages = 2, .is_tied = true},
          {.data_ranks = 2, .sync_small_every = 2}};
}

TEST(GradientCompression, EveryLayoutTrainsNearTheRunThatTellsAll) {
  for (const Layout& layout : layouts()) {
    for (const bool shards : {false, true}) {
      for (const Compression format : kFormats) {
        SCOPED_TRACE(layout.text() + (shards ? ", ZeRO-2" : ""));
        const RankedRun run = run_of(layout, {.format = format, .accumulation = 2, .shards = shards});
        const Outcome found = train_ranks(layout.ranks(), run, 6);
        const Outcome expected = train_ranks(layout.ranks(), plain_run_of(run), 6);
        EXPECT_NE(found.weights, expected.weights);
        expect_near(found, expected, 1e-3, 0.03);
        expect_same_bits(train_ranks(layout.ranks(), run, 6), found);
      }
    }
  }
}

/// What this data rank has not told yet, flat; empty on ranks that only send.
Values residual_of(Executor& executor, int64_t data_rank, bool keeps) {
  Values flat(keeps ? static_cast<size_t>(executor.program().whole_params.flat_size) : 0);
  gather_residual(executor, data_rank, flat);
  return flat;
}

double norm_of(const Values& values) {
  double sum = 0;
  for (const float value : values) sum += double{value} * double{value};
  return std::sqrt(sum);
}

TEST(GradientCompression, AResumeOfTheSameLayoutContinuesBitForBit) {  // fault:C5
  for (const Layout& layout : layouts()) {
    for (const Form& form : {Form{.format = Compression::kBF16}, Form{.format = Compression::kFP16},
                             Form{.format = Compression::kFP16, .accumulation = 2, .shards = true}}) {
      SCOPED_TRACE(layout.text() + (form.shards ? ", ZeRO-2" : ""));
      const RankedRun run = run_of(layout, form);
      const Outcome expected = train_ranks(layout.ranks(), run, 6);
      SavedRun saved;
      train_and_save(layout.ranks(), run, 2, saved);
      Outcome found;
      on_ranks(layout.ranks(), run, [&](TinyRun& mine) {
        const ResumedState state = read_checkpoint(saved.store.path_of(2), saved.context(mine), mine.executor);
        EXPECT_EQ(state.lost_residual, 0);
        mine.trainer.restore(state.progress);
        for (size_t step = 2; step < 6; ++step) {
          EXPECT_EQ(mine.trainer.step_and_finish().loss, expected.records[step].loss) << step;
        }
        Outcome outcome = gathered_state(mine);
        if (mine.executor.program().options.world_rank() == 0) found = std::move(outcome);
      });
      EXPECT_EQ(found.weights, expected.weights);
      EXPECT_EQ(found.second_moment, expected.second_moment);
    }
  }
}

/// A save uses the gradients' memory, and nothing of it may reach a message.
TEST(GradientCompression, ASaveChangesNothingOfTheRunThatGoesOn) {
  for (const Compression format : kFormats) {
    const RankedRun run = compressed_run({.format = format});
    const Outcome expected = train_ranks(3, run, 5);
    Outcome found;
    SavedRun saved;
    on_ranks(3, run, [&](TinyRun& mine) {
      const bool is_first = mine.executor.program().options.world_rank() == 0;
      const CheckpointContext context = saved.context(mine);
      CheckpointSaver saver(mine.executor, saved.store, context, {.is_async = false, .writes = is_first});
      for (int step = 0; step < 5; ++step) {
        mine.trainer.step_and_finish();
        saver.save(mine.trainer, {});
      }
      Outcome outcome = gathered_state(mine);
      if (is_first) found = std::move(outcome);
    });
    EXPECT_EQ(found.weights, expected.weights);
    EXPECT_EQ(found.first_moment, expected.first_moment);
  }
}

TEST(GradientCompression, OnOtherRanksTheFirstTakesOverWhatAllHadNotTold) {
  SavedRun saved;
  std::vector<double> sum;
  const RankedRun run = compressed_run({.accumulation = 3});
  on_ranks(4, run, [&](TinyRun& mine) {
    const bool is_first = mine.executor.program().options.world_rank() == 0;
    mine.trainer.step_and_finish();
    mine.trainer.step_and_finish();
    for (int64_t rank = 0; rank < 4; ++rank) {
      const Values residual = residual_of(mine.executor, rank, is_first);
      if (!is_first) continue;
      EXPECT_GT(norm_of(residual), 0) << rank;
      sum.resize(residual.size());
      for (size_t i = 0; i < residual.size(); ++i) sum[i] += double{residual[i]};
    }
    const CheckpointContext context = saved.context(mine);
    CheckpointSaver saver(mine.executor, saved.store, context, {.is_async = false, .writes = is_first});
    saver.save(mine.trainer, {});
  });
  const Values expected(sum.begin(), sum.end());
  for (const int ranks : {2, 3}) {
    for (const bool shards : {false, true}) {
      const RankedRun other = compressed_run({.accumulation = 12 / ranks, .shards = shards});
      on_ranks(ranks, other, [&](TinyRun& mine) {
        const bool is_first = mine.executor.program().options.world_rank() == 0;
        const ResumedState state = read_checkpoint(saved.store.path_of(2), saved.context(mine), mine.executor);
        mine.trainer.restore(state.progress);
        EXPECT_EQ(state.lost_residual, 0);
        for (int64_t rank = 0; rank < ranks; ++rank) {
          const Values found = residual_of(mine.executor, rank, is_first);
          if (!is_first) continue;
          EXPECT_EQ(found, rank == 0 ? expected : Values(expected.size(), 0.0f)) << rank;
        }
        EXPECT_FALSE(mine.trainer.step_and_finish().skipped);
      });
    }
  }
  // One rank tells nobody anything: what is lost is said.
  on_ranks(1, compressed_run({.accumulation = 12}), [&](TinyRun& mine) {
    const ResumedState state = read_checkpoint(saved.store.path_of(2), saved.context(mine), mine.executor);
    EXPECT_NEAR(state.lost_residual / norm_of(expected), 1.0, 1e-6);
  });
}

TEST(GradientCompression, WithoutFeedbackACheckpointHoldsNoResidual) {
  SavedRun saved;
  train_and_save(2, compressed_run({.has_feedback = false}), 1, saved);
  EXPECT_FALSE(std::filesystem::exists(saved.store.path_of(1) / kResidualFile));
  SavedRun kept;
  train_and_save(2, compressed_run({}), 1, kept);
  EXPECT_TRUE(std::filesystem::exists(kept.store.path_of(1) / kResidualFile));
}

TEST(GradientCompression, ANanOnOneRankSkipsTheStepOnAllAndLeavesNoTrace) {  // fault:C1
  for (const Compression format : kFormats) {
    for (const bool shards : {false, true}) {
      const RankedRun run = compressed_run({.format = format, .accumulation = 2, .shards = shards});
      std::array<std::vector<bool>, 2> skipped;
      on_ranks(2, run, [&](TinyRun& mine) {
        const auto rank = static_cast<size_t>(mine.executor.program().options.data_rank);
        skipped[rank].push_back(mine.trainer.step_and_finish().skipped);
        EXPECT_GT(norm_of(read_all_of(mine.executor, mine.executor.program().residual)), 0);
        Values norm = get_parameter(mine.executor, 1);
        const float kept = norm[0];
        norm[0] = rank == 1 ? std::numeric_limits<float>::quiet_NaN() : kept;
        set_parameter(mine.executor, 1, norm);
        skipped[rank].push_back(mine.trainer.step_and_finish().skipped);
        for (const float value : read_all_of(mine.executor, mine.executor.program().residual)) ASSERT_EQ(value, 0.0f);
        norm[0] = kept;
        set_parameter(mine.executor, 1, norm);
        skipped[rank].push_back(mine.trainer.step_and_finish().skipped);
        for (const float value : read_all_of(mine.executor, mine.executor.program().residual)) {
          ASSERT_TRUE(std::isfinite(value));
        }
      });
      for (const auto& of_rank : skipped) EXPECT_EQ(of_rank, (std::vector<bool>{false, true, false}));
    }
  }
}

TEST(GradientCompression, OneRankKnowsNothingOfIt) {
  const RankedRun run = compressed_run({});
  expect_same_bits(train_ranks(1, run, 3), train_ranks(1, plain_run_of(run), 3));
}

}  // namespace
}  // namespace litespark
