// SPDX-License-Identifier: Apache-2.0
// The run file's words become the trainer's options, and a resume sees every difference that matters.
#include <gtest/gtest.h>

#include "data/synthetic_source.h"
#include "train/run_options.h"

namespace litespark {
namespace {

TEST(RunOptions, TheTrainerFollowsTheFile) {
  RunConfig config;
  config.schedule = {.name = ScheduleKind::kWsd, .warmup = 7, .final_fraction = 0.25, .decay_fraction = 0.5};
  config.optim.lr = 0.5;
  config.optim.clip_norm = 2.0;
  config.train.steps = 90;
  config.train.accumulation = 3;
  config.train.nan_limit = 4;
  config.train.spike_factor = 6.0;
  config.device.verify_every = 50;
  const TrainerOptions options = trainer_options(config);
  EXPECT_EQ(options.schedule, (Schedule{.decay = Decay::kWsd,
                                        .peak = 0.5,
                                        .warmup_steps = 7,
                                        .total_steps = 90,
                                        .final_fraction = 0.25,
                                        .decay_fraction = 0.5}));
  EXPECT_EQ(options.accumulation, 3);
  EXPECT_EQ(options.clip_norm, 2.0);
  EXPECT_EQ(options.nan_limit, 4);
  EXPECT_EQ(options.spike_factor, 6.0);
  EXPECT_EQ(options.verify_every, 50);
}

TEST(RunOptions, ScheduleNamesMeanTheSameOnBothSides) {
  RunConfig config;
  for (const char* name : {"cosine", "linear", "wsd", "constant", "inverse_sqrt"}) {
    assign_text(*Fields::of(config).find("schedule.name"), name, "test");
    EXPECT_EQ(trainer_options(config).schedule.decay, parse_decay(name)) << name;
  }
}

TEST(RunOptions, AnEvaluationOfNoBatchesOrTooManyIsOfAllHeldOutDataOnce) {
  struct ThreeBatches : BatchSource {
    void fill(uint64_t, Batch&) const override {}
    uint64_t batches_per_epoch() const override { return 3; }
    std::string fingerprint() const override { return "three"; }
  } source;
  RunConfig config;
  config.train.eval_batches = 0;
  EXPECT_EQ(run_plan(config, &source).eval_batches, 3);
  config.train.eval_batches = 2;
  EXPECT_EQ(run_plan(config, &source).eval_batches, 2);
  config.train.eval_batches = 4;
  EXPECT_EQ(run_plan(config, &source).eval_batches, 3) << "a second epoch would count documents twice";
  config.train.eval_every = 5;
  config.checkpoint.every = 11;
  EXPECT_EQ(run_plan(config, nullptr).eval_every, 5);
  EXPECT_EQ(run_plan(config, nullptr).save_every, 11);
}

TEST(RunOptions, RanksAndAccumulationMayChangePlacesBetweenASaveAndAResume) {
  const auto batch_of = [](int64_t ranks, int64_t accumulation) {
    RunConfig config;
    config.cluster.gpus = ranks;
    config.train.accumulation = accumulation;
    return run_identity(config, ModelConfig{}, "data").at("batch");
  };
  EXPECT_EQ(batch_of(4, 3), batch_of(1, 12));
  EXPECT_EQ(batch_of(2, 6), batch_of(3, 4));
  EXPECT_NE(batch_of(4, 3), batch_of(3, 3));
}

// Copies of norms and biases learn from a rank's own micro-batches, so the number of ranks changes the weights.
TEST(RunOptions, RanksWithCopiesOfTheirOwnCannotChangePlaces) {
  const auto batch_of = [](int64_t ranks, int64_t accumulation, int64_t every) {
    RunConfig config;
    config.cluster.gpus = ranks;
    config.train.accumulation = accumulation;
    config.distribution.sync_small_every = every;
    return run_identity(config, ModelConfig{}, "data").at("batch");
  };
  EXPECT_EQ(batch_of(4, 3, 5), batch_of(4, 3, 5));
  EXPECT_NE(batch_of(4, 3, 5), batch_of(2, 6, 5));
  EXPECT_NE(batch_of(4, 3, 5), batch_of(4, 3, 4));
  EXPECT_NE(batch_of(4, 3, 5), batch_of(4, 3, 1));
  EXPECT_EQ(batch_of(1, 12, 5), batch_of(4, 3, 1));
}

TEST(RunOptions, TheIdentityChangesWithWhatChangesTheWeights) {
  const auto identity = [](const char* path, const char* value) {
    RunConfig config;
    if (path != nullptr) assign_text(*Fields::of(config).find(path), value, "test");
    return run_identity(config, ModelConfig{}, "data");
  };
  const RunIdentity plain = identity(nullptr, nullptr);
  for (const auto& [path, value, name] : {std::tuple{"seed", "2", "seed"},
                                          {"optim.lr", "1", "schedule"},
                                          {"train.steps", "9", "schedule"},
                                          {"optim.betas", "0.5,0.5", "optimizer"},
                                          {"train.z_loss", "0.1", "optimizer"},
                                          {"precision.compute", "fp32", "precision"},
                                          {"precision.master", "bf16", "precision"},
                                          {"precision.gradient", "bf16", "precision"},
                                          {"optim.moments", "bf16", "precision"},
                                          {"precision.matmul", "fp8", "precision"},
                                          {"precision.attention", "fp8", "precision"},
                                          {"train.micro_batch", "3", "batch"},
                                          {"data.packing", "stream", "batch"}}) {
    RunIdentity changed = identity(path, value);
    EXPECT_NE(changed[name], plain.at(name)) << path;
    changed[name] = plain.at(name);
    EXPECT_EQ(changed, plain) << path;
  }
  for (const auto& [path, value] : {std::pair{"checkpoint.every", "9"},
                                    {"train.log_every", "9"},
                                    {"out", "x"},
                                    {"data.workers", "3"},
                                    {"precision.master", "bf16-remainder"},
                                    {"memory.recompute", "block"}}) {
    EXPECT_EQ(identity(path, value), plain) << path;
  }
}

TEST(RunOptions, TheIdentityHoldsWhatEightBitMatmulsAreMadeWith) {
  const auto identity = [](std::vector<std::pair<const char*, const char*>> settings) {
    RunConfig config;
    for (const auto& [path, value] : settings) assign_text(*Fields::of(config).find(path), value, "test");
    return run_identity(config, ModelConfig{}, "data");
  };
  const RunIdentity plain = identity({{"precision.matmul", "fp8"}});
  EXPECT_NE(identity({{"precision.matmul", "fp8"}, {"precision.fp8_gradient", "e5m2"}}), plain);
  EXPECT_NE(identity({{"precision.matmul", "fp8"}, {"precision.fp8_scaling", "row"}}), plain);
  EXPECT_EQ(identity({{"precision.matmul", "fp8-emulated"}}), plain);
  EXPECT_NE(identity({{"precision.matmul", "fp8"}, {"precision.master", "bf16-remainder"}}), plain)
      << "8-bit copies are made of another tensor";
  EXPECT_EQ(identity({{"precision.attention", "fp8-emulated"}}), identity({{"precision.attention", "fp8"}}));
  EXPECT_EQ(identity({{"precision.fp8_gradient", "e5m2"}}), identity({})) << "without 8-bit matmuls it says nothing";
}

TEST(RunOptions, TheIdentityHoldsModelAndData) {
  ModelConfig other;
  other.num_hidden_layers = 3;
  EXPECT_NE(run_identity(RunConfig{}, other, "d").at("model"),
            run_identity(RunConfig{}, ModelConfig{}, "d").at("model"));
  EXPECT_EQ(run_identity(RunConfig{}, ModelConfig{}, "d").at("data"), "d");
  EXPECT_EQ(run_identity(RunConfig{}, ModelConfig{}, "d").at("tokenizer"), "none");
}

}  // namespace
}  // namespace litespark
