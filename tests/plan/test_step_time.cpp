// SPDX-License-Identifier: Apache-2.0
// Shapes of published scaling, not single figures: those are held by test_validation.
#include <gtest/gtest.h>

#include "core/error.h"
#include "plan/plan_examples.h"
#include "plan/step_time.h"
#include "support/error_text.h"

namespace litespark {
namespace {

using test::llama_8b_workload;

StepSeconds step(const Workload& workload, const Software& software = {}, const char* hardware = "h100") {
  return step_seconds(workload, software, hardware_named(hardware));
}

TEST(StepTime, PartsAddUpToTheTotal) {
  Workload workload = llama_8b_workload();
  workload.layout.pp = 4;
  workload.layout.tp = 2;
  workload.recompute = LayerRecompute::kFull;
  for (const bool shards : {false, true}) {
    Software software;
    software.shards_layers = shards;
    const StepSeconds s = step(workload, software);
    const double sum = s.matmul + s.attention + s.pointwise + s.recompute + s.tensor + s.context + s.expert + s.bubble +
                       s.sharded + s.gradients + s.optimizer;
    EXPECT_NEAR(s.total, sum, 1e-9 * sum);
    for (const double part : {s.bubble, s.sharded, s.gradients}) EXPECT_GE(part, 0);
  }
}

// 28 layers and a head of about four of them are 8 layers' time a stage of 4, but not 4 a range of 8: one whole layer
// must stay beside the head.
TEST(StepTime, BalancedStagesWaitForTheHeadOnlyWhereItFillsARangeByItself) {
  Workload workload = llama_8b_workload();
  workload.shape.layers = 28;
  workload.shape.hidden = 3072;
  workload.shape.heads = 24;
  workload.shape.ffn = 8192;
  workload.layout = {.dp = 1, .pp = 4};
  workload.global_batch = 16 * workload.micro_batch;
  const auto waiting = [&](bool balances, int64_t chunks) {
    workload.layout.vpp = chunks;
    Software software;
    software.balances_stages = balances;
    const StepSeconds s = step(workload, software);
    return s.bubble / (s.total - s.bubble);
  };
  const double ideal = 3.0 / 16;
  EXPECT_GT(waiting(true, 1), 0.9 * ideal);  // of the whole step, which also has an update
  EXPECT_LT(waiting(true, 1), 1.25 * ideal);
  EXPECT_LT(waiting(true, 1), waiting(false, 1));
  EXPECT_GT(waiting(true, 2), 1.5 * ideal / 2);
}

TEST(StepTime, UsesAtMostThePeak) {
  for (const Hardware& hardware : known_hardware()) {
    if (hardware.link_gbps <= 0 || hardware.network_gbps <= 0) continue;
    const StepSeconds s = step_seconds(llama_8b_workload(), {}, hardware);
    EXPECT_LT(s.model_tflops, hardware.bf16_tflops) << hardware.name;
    EXPECT_GT(s.model_tflops, 0.1 * hardware.bf16_tflops) << hardware.name;
  }
}

TEST(StepTime, ThreeDimensionalLayoutsScaleAlmostFlat) {
  Workload workload = llama_8b_workload();
  workload.shape.layers = 80;
  workload.shape.hidden = 8192;
  workload.shape.heads = 64;
  workload.shape.ffn = 28672;
  workload.layout = {.dp = 2, .tp = 4, .pp = 4, .cp = 2, .vpp = 5};
  const auto seconds = [&](int64_t dp) {
    workload.layout.dp = dp;
    workload.global_batch = 64 * dp;
    return step(workload).total;
  };
  EXPECT_LT(seconds(64) / seconds(2), 1.05);
}

TEST(StepTime, ShardedLayersLoseMoreOnSmallModels) {
  const auto loss = [&](int64_t layers, int64_t hidden) {
    Workload workload = llama_8b_workload();
    workload.shape.layers = layers;
    workload.shape.hidden = hidden;
    workload.shape.heads = workload.shape.kv_heads = hidden / 128;
    workload.shape.ffn = 4 * hidden;
    workload.seq_len = 2048;
    workload.micro_batch = 8;
    Software software;
    software.shards_layers = true;
    const auto rate = [&](int64_t dp) {
      workload.layout.dp = dp;
      workload.global_batch = 8 * dp;
      return step(workload, software).tokens_per_second / static_cast<double>(dp);
    };
    return 1 - rate(512) / rate(128);
  };
  EXPECT_GT(loss(24, 2048), loss(80, 8192));
  EXPECT_GT(loss(24, 2048), 0.03);
}

TEST(StepTime, BubblesShrinkWithMicroBatchesAndChunks) {
  Workload workload = llama_8b_workload();
  workload.layout = {.dp = 1, .pp = 8};
  const auto share = [&](int64_t batch, int64_t chunks) {
    workload.global_batch = batch;
    workload.layout.vpp = chunks;
    const StepSeconds s = step(workload);
    return s.bubble / s.total;
  };
  EXPECT_GT(share(8, 1), share(64, 1));
  EXPECT_GT(share(8, 1), share(8, 4));
}

TEST(StepTime, GivenLayersOfStagesMakeTheStepAsSlowAsTheSlowest) {
  Workload workload = llama_8b_workload();
  workload.shape.layers = 32;
  workload.layout = {.dp = 1, .pp = 4};
  workload.global_batch = 16;
  const auto seconds = [&](const std::vector<int64_t>& layers) {
    workload.layout.range_layers = layers;
    return step(workload).total;
  };
  EXPECT_LT(seconds({9, 9, 8, 6}), seconds({8, 8, 8, 8}));  // the head costs the last stage some layers
  EXPECT_LT(seconds({8, 8, 8, 8}), seconds({4, 8, 8, 12}));
  // The slowest stage sets the time of a long pipeline: 20 layers of one against 10.
  workload.global_batch = 1024;
  EXPECT_NEAR(seconds({20, 4, 4, 4}) / seconds({10, 10, 9, 3}), 2, 0.1);
  // Two ranges a stage: stage 0 has 14 + 6 of them.
  workload.layout.vpp = 2;
  EXPECT_NEAR(seconds({14, 2, 2, 2, 6, 2, 2, 2}) / seconds({5, 5, 5, 1, 5, 5, 4, 2}), 2, 0.1);
}

TEST(StepTime, AFactorMultipliesEverything) {
  const StepSeconds one = step_seconds(llama_8b_workload(), {}, hardware_named("h100"));
  const StepSeconds more = step_seconds(llama_8b_workload(), {}, hardware_named("h100"), 1.25);
  EXPECT_NEAR(more.total, 1.25 * one.total, 1e-9);
  EXPECT_NEAR(more.matmul, 1.25 * one.matmul, 1e-9);
}

TEST(StepTime, RefusesWhatCannotRun) {
  Workload workload = llama_8b_workload();
  workload.layout.tp = 5;
  EXPECT_THROW(step(workload), ConfigError);
}

}  // namespace
}  // namespace litespark
