// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "plan/collective_time.h"
#include "plan/tape_time.h"
#include "support/plain_sizes.h"
#include "support/tape_reader.h"

namespace litespark {
namespace {

using test::small_config;
using test::small_options;

Program program_with(Recompute recompute, int64_t rows) {
  ProgramOptions options = small_options();
  options.batch = {.num_tokens = rows * 32, .max_documents = rows, .max_length = 32, .uniform = true};
  options.recompute = recompute;
  options.accumulates = true;
  return make_llama_program(small_config(), options, PlainSizes());
}

TEST(TapeTime, PartsAddUpAndGrowWithTheWork) {
  const Hardware h200 = hardware_named("h200");
  const StepSeconds one = program_seconds(program_with(Recompute::kNone, 2), 1, h200);
  EXPECT_NEAR(one.total, one.matmul + one.attention + one.pointwise + one.optimizer, 1e-12);
  EXPECT_GT(one.attention, 0);
  EXPECT_GT(one.optimizer, 0);
  const StepSeconds two = program_seconds(program_with(Recompute::kNone, 2), 2, h200);
  EXPECT_GT(two.total, one.total);
  EXPECT_EQ(two.optimizer, one.optimizer);
  EXPECT_GT(program_seconds(program_with(Recompute::kBlock, 2), 1, h200).matmul, one.matmul);
}

TEST(TapeTime, EightBitProductsTakeLessTimeWhereTheDeviceHasThem) {
  ModelConfig config = small_config();
  config.head_dim *= 128;
  config.hidden_size = config.num_attention_heads * config.head_dim;
  config.intermediate_size = 16384;
  ProgramOptions options = small_options();
  options.batch = {.num_tokens = 8192, .max_documents = 256, .max_length = 32, .uniform = true};
  options.compute = DType::kBF16;
  const auto matmul = [&](const char* hardware) {
    return program_seconds(make_llama_program(config, options, PlainSizes()), 1, hardware_named(hardware)).matmul;
  };
  const double h200 = matmul("h200");
  const double a100 = matmul("a100");
  options.fp8 = Fp8Options{.allows_emulation = true};
  EXPECT_LT(matmul("h200"), 0.8 * h200);
  EXPECT_GT(matmul("a100"), 0.95 * a100);
}

// The clock is the step's, and matmuls draw more power; a CPU has no such limit.
TEST(TapeTime, AttentionTakesLongerBetweenLongerMatmuls) {
  ProgramOptions options = small_options();
  options.batch = {.num_tokens = 8192, .max_documents = 1, .max_length = 8192, .uniform = true};
  options.compute = DType::kBF16;
  ModelConfig config = small_config();
  config.head_dim = 128;
  config.num_attention_heads = config.num_key_value_heads = 32;
  config.hidden_size = 4096;
  config.max_position_embeddings = 8192;
  const auto attention = [&](int64_t intermediate, const char* hardware) {
    config.intermediate_size = intermediate;
    return program_seconds(make_llama_program(config, options, PlainSizes()), 1, hardware_named(hardware)).attention;
  };
  const double longer = attention(65536, "h200") / attention(256, "h200");
  EXPECT_GT(longer, 1.03);
  EXPECT_LT(longer, 1.19);
  EXPECT_EQ(attention(65536, "cpu"), attention(256, "cpu"));
}

TEST(TapeTime, CollectivesCostWhatTheTapeWaitsForAndNoMore) {
  ProgramOptions options = small_options();
  options.batch = {.num_tokens = 4096, .max_documents = 128, .max_length = 32, .uniform = true};
  options.data_ranks = 8;
  const Program program = make_llama_program(small_config(), options, PlainSizes());
  Hardware hardware = hardware_named("h200");
  const StepSeconds fast = program_seconds(program, 1, hardware);
  hardware.link_gbps = 1;
  const StepSeconds slow = program_seconds(program, 1, hardware);
  EXPECT_GT(slow.gradients, fast.gradients);
  EXPECT_EQ(slow.matmul, fast.matmul);
  EXPECT_NEAR(slow.total, slow.matmul + slow.attention + slow.pointwise + slow.optimizer + slow.gradients, 1e-12);
}

TEST(TapeTime, EveryLaterMicroBatchTakesTheSameHoweverManyThereAre) {
  ProgramOptions options = small_options();
  options.batch = {.num_tokens = 4096, .max_documents = 128, .max_length = 32, .uniform = true};
  options.accumulates = true;
  options.data_ranks = 8;
  options.shards_gradients = true;  // reduced in every micro-batch
  const Program program = make_llama_program(small_config(), options, PlainSizes());
  Hardware hardware = hardware_named("h200");
  hardware.link_gbps = 1;
  const auto seconds = [&](int64_t accumulation) { return program_seconds(program, accumulation, hardware); };
  const StepSeconds four = seconds(4);
  const StepSeconds five = seconds(5);
  EXPECT_GT(five.gradients, four.gradients);
  for (const int64_t more : {1, 2, 20, 1'000'000'000}) {
    const StepSeconds step = seconds(5 + more);
    const auto count = static_cast<double>(more);
    EXPECT_NEAR(step.total / (five.total + count * (five.total - four.total)), 1, 1e-9) << more;
    EXPECT_NEAR(step.gradients / (five.gradients + count * (five.gradients - four.gradients)), 1, 1e-9) << more;
    EXPECT_NEAR(step.matmul / (five.matmul + count * (five.matmul - four.matmul)), 1, 1e-9) << more;
    EXPECT_EQ(step.optimizer, five.optimizer);
  }
}

/// One step of two data ranks of two tensor ranks, written by hand.
class HandTape {
 public:
  HandTape() {
    program_.options = small_options();
    program_.options.data_ranks = program_.options.tensor_ranks = 2;
  }

  void gather(op::CommGroup group, int call, int64_t megabytes) {
    tape_.push(op::AllGather<TensorId>{
        .data = tensor(megabytes), .shard = tensor(megabytes / 2), .ranks = 2, .group = group, .call = call});
  }
  void pass_on(int call, int64_t megabytes) {
    program_.options.context_ranks = 2;
    tape_.push(op::PassOn<TensorId>{.received = tensor(megabytes), .sent = tensor(megabytes), .call = call});
  }
  void wait(int call) { tape_.push(op::CommWait<TensorId>{.tensor = tensor(1), .source = {}, .call = call}); }
  void work(int64_t megabytes) { tape_.push(op::Add<TensorId>{.sum = tensor(megabytes), .x = tensor(megabytes)}); }

  StepSeconds seconds() {
    program_.tapes = {{Phase::kTrainFirst, tape_}};
    return program_seconds(program_, 1, hardware_named("h200"));
  }

 private:
  TensorId tensor(int64_t megabytes) {
    return program_.tensors.add({.name = std::to_string(program_.tensors.size()),
                                 .dtype = DType::kF32,
                                 .shape = {megabytes * 250'000},
                                 .owner = Owner::kCommunication,
                                 .storage = Storage::kArena});
  }
  Program program_;
  Tape tape_{"train_first"};
};

double gather_seconds(double megabytes) {
  return collective_seconds(Collective::kAllGather, 1e6 * megabytes, {2, 2}, hardware_named("h200"));
}

double gather_contention(double megabytes) {
  return contention_seconds(Collective::kAllGather, 1e6 * megabytes, 2, hardware_named("h200"));
}

TEST(TapeTime, CallsRunOneAfterAnotherInTheOrderOfTheTapeWhateverTheirGroup) {
  HandTape tape;
  tape.gather(op::CommGroup::kTensor, 1, 100);
  tape.gather(op::CommGroup::kData, 2, 400);
  tape.gather(op::CommGroup::kTensor, 3, 200);
  tape.wait(3);
  tape.wait(1);
  tape.wait(2);
  const StepSeconds step = tape.seconds();
  EXPECT_NEAR(step.total, gather_seconds(100) + gather_seconds(400) + gather_seconds(200), 1e-9);
  EXPECT_NEAR(step.tensor, step.total, 1e-9);
  EXPECT_EQ(step.gradients, 0);
}

TEST(TapeTime, AWaitForTheFirstStretchLeavesTheSecondUnderWay) {
  HandTape tape;
  tape.gather(op::CommGroup::kTensor, 1, 100);
  tape.gather(op::CommGroup::kTensor, 2, 100);
  tape.wait(1);
  tape.work(400);
  tape.wait(2);
  const StepSeconds step = tape.seconds();
  EXPECT_GT(step.pointwise, gather_seconds(100));
  EXPECT_NEAR(step.tensor, gather_seconds(100) + gather_contention(100), 1e-9);
}

TEST(TapeTime, AHopBesideEnoughWorkCostsItsTrafficAlone) {
  HandTape waiting;
  waiting.pass_on(1, 100);
  waiting.wait(1);
  const double hop = hop_seconds(1e8, {2, 2}, hardware_named("h200"));
  EXPECT_NEAR(waiting.seconds().context, hop, 1e-9);
  HandTape hidden;
  hidden.pass_on(1, 100);
  hidden.work(4000);
  hidden.wait(1);
  EXPECT_NEAR(hidden.seconds().context, gather_contention(200), 1e-9);
  EXPECT_LT(gather_contention(200), hop);
}

TEST(TapeTime, OpsLoseToACallBesideThemWhatItsTrafficTakes) {
  HandTape alone;
  alone.work(4000);
  HandTape both;
  both.work(1000);
  both.gather(op::CommGroup::kData, 1, 400);
  both.work(1500);
  both.work(1500);
  both.wait(1);
  const double overhead = 2e-6 * hardware_named("h200").op_overhead_us;
  EXPECT_NEAR(both.seconds().total, alone.seconds().total + overhead + gather_contention(400), 1e-9);
  EXPECT_NEAR(both.seconds().gradients, gather_contention(400), 1e-9);
}

TEST(TapeTime, RarerSynchronisationOfSmallParametersSavesTheirCalls) {
  const auto exposed = [](int64_t every) {
    ProgramOptions options = small_options();
    options.data_ranks = 8;
    options.sync_small_every = every;
    return program_seconds(make_llama_program(small_config(), options, PlainSizes()), 1, hardware_named("h200"));
  };
  EXPECT_LT(exposed(5).gradients, exposed(1).gradients);
  EXPECT_LT(exposed(50).gradients, exposed(5).gradients);
  EXPECT_EQ(exposed(50).matmul, exposed(5).matmul);
}

TEST(TapeTime, MessagesIn16BitsTravelFasterAndCostOpsOfTheirOwn) {
  const auto step = [](Compression compression) {
    ProgramOptions options = small_options();
    options.data_ranks = 8;
    options.compression = compression;
    Hardware hardware = hardware_named("h200");
    hardware.link_gbps = 1;
    return program_seconds(make_llama_program(small_config(), options, PlainSizes()), 1, hardware);
  };
  EXPECT_LT(step(Compression::kBF16).gradients, step(Compression::kNone).gradients);
  EXPECT_GT(step(Compression::kBF16).pointwise, step(Compression::kNone).pointwise);
}

TEST(TapeTime, SlowerHardwareTakesLonger) {
  const Program program = program_with(Recompute::kNone, 64);
  EXPECT_GT(program_seconds(program, 1, hardware_named("cpu")).total,
            program_seconds(program, 1, hardware_named("h200")).total);
}

}  // namespace
}  // namespace litespark
