// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <set>

#include "core/error.h"
#include "plan/run_forecast.h"
#include "plan/stage_plan.h"
#include "plan/tape_time.h"
#include "support/error_text.h"
#include "support/plain_sizes.h"

namespace litespark {
namespace {

RunConfig small_run() {
  RunConfig config;
  config.model.vocab_size = 512;
  config.model.hidden_size = 256;
  config.model.intermediate_size = 512;
  config.model.num_hidden_layers = 4;
  config.model.num_attention_heads = 4;
  config.data.seq_len = 128;
  config.train.steps = 100;
  config.train.micro_batch = 8;
  return config;
}

RunForecast forecast(const RunConfig& config, const char* hardware = "h200") {
  const ModelConfig model = scratch_model_config(config);
  const Program program = plan_stages(model, planned_options(config), PlainSizes()).program;
  return forecast_run({.config = config,
                       .model = model,
                       .program = program,
                       .hardware = hardware_named(hardware),
                       .energy = {.pue = 1.2, .grams_per_kwh = 369}});
}

TEST(RunForecast, OneDeviceGoesByItsTape) {
  const RunForecast one = forecast(small_run());
  EXPECT_TRUE(one.goes_by_tape);
  EXPECT_TRUE(one.fits());
  EXPECT_GT(one.step.total, 0);
  EXPECT_NEAR(one.hours, one.step.total * 100 / 3600, 1e-12);
  EXPECT_EQ(one.tokens, 100.0 * 8 * 128);
  EXPECT_NEAR(one.step.tokens_per_second, 8 * 128 / one.step.total, 1e-6);
  EXPECT_GT(one.cost.total_kwh(), 0);
}

TEST(RunForecast, DataParallelismAddsTheSumOfGradients) {
  RunConfig config = small_run();
  const RunForecast one = forecast(config);
  config.cluster.gpus = 8;
  const RunForecast eight = forecast(config);
  EXPECT_TRUE(eight.goes_by_tape);
  EXPECT_GT(eight.step.gradients, 0);
  EXPECT_LT(eight.step.optimizer, one.step.optimizer);
  EXPECT_GT(eight.step.tokens_per_second, one.step.tokens_per_second);
  EXPECT_LT(eight.memory_bytes, one.memory_bytes);
}

TEST(RunForecast, ScalingStartsAtTheForecast) {
  const RunForecast one = forecast(small_run());
  const std::vector<ScalingPoint> points = weak_scaling(one, 16384);
  ASSERT_EQ(points.size(), 15u);
  EXPECT_NEAR(points.front().tokens_per_second, one.step.tokens_per_second, 1e-6 * one.step.tokens_per_second);
  EXPECT_EQ(points.back().gpus, 16384);
  for (const ScalingPoint& point : points) EXPECT_GT(point.tokens_per_second, 0);
}

TEST(RunForecast, TensorParallelismGoesByItsTapesToo) {
  RunConfig config = small_run();
  // Products that take longer than their start.
  config.model.hidden_size = 2048;
  config.model.intermediate_size = 8192;
  const RunForecast one = forecast(config);
  config.cluster.gpus = 4;
  config.cluster.tp = 2;
  config.distribution.tensor_stretches = 1;  // more of them are more small products
  const RunForecast four = forecast(config);
  EXPECT_TRUE(four.goes_by_tape);
  EXPECT_GT(four.step.tensor, 0);
  EXPECT_GT(four.step.gradients, 0);
  EXPECT_LT(four.step.matmul, one.step.matmul);
  EXPECT_LT(four.memory_bytes, one.memory_bytes);
  EXPECT_NEAR(four.step.tokens_per_second, 2 * 8 * 128 / four.step.total, 1e-6);
}

/// Every call among tensor-parallel ranks waited for as soon as it is started.
Tape waiting_at_once(const Tape& tape) {
  Tape out(tape.phase());
  std::set<int> done;
  const auto start = [&](const auto& call) {
    out.push(call);
    if (call.group != op::CommGroup::kTensor) return;
    out.push(op::CommWait<TensorId>{.tensor = call.data, .source = {}, .call = call.call});
    done.insert(call.call);
  };
  for (const TapeEntry& entry : tape.entries()) {
    if (const auto* gather = std::get_if<op::AllGather<TensorId>>(&entry.op)) {
      start(*gather);
    } else if (const auto* scatter = std::get_if<op::ReduceScatter<TensorId>>(&entry.op)) {
      start(*scatter);
    } else if (const auto* wait = std::get_if<op::CommWait<TensorId>>(&entry.op)) {
      if (done.erase(wait->call) == 0) out.push(*wait);
    } else {
      std::visit([&](const auto& op) { out.push(op); }, entry.op);
    }
  }
  return out;
}

/// The shape of configs/llama-3.2-3b.toml, as two GPUs ran it before rows travelled beside products
/// (bench/results/2026-11-30-h200-x2-ranks-second.txt, row 2t2: 376.76 ms).
TEST(RunForecast, TwoGpusThatWaitForWholeRowsTakeWhatTheyDid) {
  RunConfig config = small_run();
  config.model.vocab_size = 128256;
  config.model.hidden_size = 3072;
  config.model.intermediate_size = 8192;
  config.model.num_hidden_layers = 28;
  config.model.num_attention_heads = 24;
  config.model.num_key_value_heads = 8;
  config.model.head_dim = 128;
  config.model.tie_word_embeddings = true;
  config.data.seq_len = 4096;
  config.train.micro_batch = 4;
  config.precision.compute = DType::kBF16;
  config.cluster.gpus = config.cluster.tp = 2;
  config.distribution.tensor_stretches = 1;
  Program program = make_llama_program(scratch_model_config(config), planned_options(config), PlainSizes());
  for (auto& [phase, tape] : program.tapes) tape = waiting_at_once(tape);
  const StepSeconds step = program_seconds(program, 1, hardware_named("h200"));
  EXPECT_NEAR(1e3 * step.total, 376.76, 0.05 * 376.76);
  EXPECT_NEAR(1e3 * step.tensor, 63, 6);
}

/// A layer of an 8B model, four times.
RunConfig wide_run() {
  RunConfig config = small_run();
  config.model.vocab_size = 32000;
  config.model.hidden_size = 4096;
  config.model.intermediate_size = 14336;
  config.model.num_attention_heads = 32;
  config.model.num_key_value_heads = 8;
  config.data.seq_len = 4096;
  config.train.micro_batch = 2;
  return config;
}

StepSeconds closed_form(const RunForecast& forecast) {
  return step_seconds(forecast.workload, litespark_software(), forecast.hardware);
}

TEST(RunForecast, TheClosedFormOfTensorParallelismSaysWhatTheTapesSay) {
  RunConfig config = wide_run();
  for (const int64_t tp : {2, 4, 8}) {
    config.cluster.gpus = config.cluster.tp = tp;
    const RunForecast tape = forecast(config);
    EXPECT_NEAR(closed_form(tape).total / tape.step.total, 1, 0.03) << tp;
    EXPECT_NEAR(closed_form(tape).tensor / tape.step.tensor, 1, 0.06) << tp;
  }
}

TEST(RunForecast, TheClosedFormOfSharedOptimizersSaysWhatTheTapesSay) {
  RunConfig config = wide_run();
  for (const int64_t gpus : {1, 2, 8}) {
    config.cluster.gpus = gpus;
    const RunForecast tape = forecast(config);
    EXPECT_NEAR(closed_form(tape).total / tape.step.total, 1, 0.05) << gpus;
  }
}

TEST(RunForecast, SharedGradientsTakeLessMemory) {
  RunConfig config = small_run();
  config.cluster.gpus = 8;
  config.train.accumulation = 2;
  const RunForecast zero1 = forecast(config);
  config.distribution.zero = 2;
  EXPECT_LT(forecast(config).memory_bytes, zero1.memory_bytes);
}

TEST(RunForecast, PipelineStagesHaveTheMemoryOfTheirTapesAndTheTimeOfTheClosedForm) {
  RunConfig config = small_run();
  config.cluster.gpus = 4;
  config.cluster.tp = 2;
  config.cluster.pp = 2;
  config.train.accumulation = 4;
  const RunForecast four = forecast(config);
  EXPECT_FALSE(four.goes_by_tape);
  EXPECT_TRUE(four.has_tapes);
  EXPECT_TRUE(four.memory_is_exact);
  EXPECT_GT(four.step.tensor, 0);
  EXPECT_GT(four.step.bubble, 0);
  const StagePlan plan = plan_stages(scratch_model_config(config), planned_options(config), PlainSizes());
  EXPECT_EQ(four.memory_bytes, static_cast<double>(plan.stages[plan.fullest].total_bytes()));
}

TEST(RunForecast, GivenLayersOfStagesAreWhatIsPlanned) {
  RunConfig config = small_run();
  config.cluster.gpus = config.cluster.pp = 2;
  config.train.accumulation = 4;
  const int64_t layers = *config.model.num_hidden_layers;
  config.cluster.pp_layers = {layers - 1, 1};
  const StagePlan plan = plan_stages(scratch_model_config(config), planned_options(config), PlainSizes());
  EXPECT_EQ(plan.stages.at(0).layers.at(0).count, layers - 1);
  EXPECT_EQ(plan.stages.at(1).layers.at(0).count, 1);
  const RunForecast most_first = forecast(config);
  EXPECT_EQ(most_first.memory_bytes, static_cast<double>(plan.stages[plan.fullest].total_bytes()));
  config.cluster.pp_layers = {1, layers - 1};
  EXPECT_LT(most_first.step.total, forecast(config).step.total);  // the head is on the last stage
  config.cluster.pp_layers = {1, layers};
  EXPECT_THROW(forecast(config), ConfigError);
}

TEST(RunForecast, OtherLayoutsGoByTheClosedForm) {
  RunConfig config = small_run();
  config.cluster.gpus = 4;
  config.cluster.cp = 2;
  config.cluster.pp = 2;
  const RunForecast four = forecast(config);
  EXPECT_FALSE(four.goes_by_tape);
  EXPECT_TRUE(four.has_tapes);
  EXPECT_EQ(four.workload.layout.text(), "pp 2 x cp 2");
}

// The ring of keys and values is counted hop by hop, and what is waited for stands in a row of its own.
TEST(RunForecast, ContextRanksGoByTheirTape) {
  RunConfig config = small_run();
  config.cluster.gpus = config.cluster.cp = 2;
  const RunForecast two = forecast(config);
  EXPECT_TRUE(two.goes_by_tape);
  EXPECT_GT(two.step.context, 0);
  EXPECT_NEAR(two.step.total,
              two.step.matmul + two.step.attention + two.step.pointwise + two.step.optimizer + two.step.gradients +
                  two.step.context,
              1e-12);
  EXPECT_EQ(two.tokens, forecast(small_run()).tokens);
}

TEST(RunForecast, SavesAndFailuresHaveTheirOwnShareOfTheRun) {
  RunConfig config = small_run();
  config.train.steps = 1'000'000;
  config.checkpoint.every = 100;
  const RunForecast often = forecast(config);
  ASSERT_TRUE(often.overhead_share.has_value());
  ASSERT_TRUE(often.played.has_value());
  EXPECT_GE(often.played->wall_seconds, 3600 * often.hours);
  FailureModel model = failure_model(config, often);
  EXPECT_DOUBLE_EQ(*often.overhead_share, *failure_stretch(model, 100 * often.step.total) - 1);
  EXPECT_NEAR(often.cost.overhead_kwh, often.cost.total_kwh() * (1 - 1 / (1 + *often.overhead_share)), 1e-9);
  config.cost.restart_seconds = 36000;
  config.cost.device_mtbf_hours = 100;
  EXPECT_GT(*forecast(config).overhead_share, *often.overhead_share + 0.05);
}

TEST(RunForecast, ARunThatFailuresWouldNeverLetEndSaysSoAndCostsWhatItsStepsDo) {
  RunConfig config = small_run();
  config.train.steps = 1'000'000'000;
  config.checkpoint.every = 0;
  config.cost.device_mtbf_hours = 1;
  const RunForecast endless = forecast(config);
  EXPECT_FALSE(endless.overhead_share.has_value());
  EXPECT_FALSE(endless.played.has_value());
  EXPECT_EQ(endless.cost.overhead_kwh, 0);
}

TEST(RunForecast, ImpossibleLayoutsAndHardwareAreRefused) {
  RunConfig config = small_run();
  config.cluster.gpus = 3;
  config.cluster.tp = 3;
  EXPECT_THROW(forecast(config), ConfigError);
  EXPECT_THROW(forecast(small_run(), "h201"), ConfigError);
}

TEST(RunForecast, ExpertsThatTheModelHasNotAreRefusedByTheWholeKey) {
  RunConfig config = small_run();
  config.cluster.gpus = config.cluster.ep = 2;
  EXPECT_TRUE(contains(error_text<ConfigError>([&] { forecast(config); }),
                       "[cluster.ep] needs a model with experts; got 2, expected 1"));
}

}  // namespace
}  // namespace litespark
