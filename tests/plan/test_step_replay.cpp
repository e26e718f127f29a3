// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>

#include "core/error.h"
#include "plan/plan_examples.h"
#include "plan/step_replay.h"
#include "support/error_text.h"

namespace litespark {
namespace {

ReplayQuestion pipelined(int64_t pp, int64_t vpp, int64_t micro_batches) {
  ReplayQuestion question;
  question.workload = test::llama_8b_workload();
  question.workload.layout = {.dp = 2, .tp = 2, .pp = pp, .vpp = vpp};
  question.workload.global_batch = 2 * micro_batches;
  question.hardware = hardware_named("h100");
  return question;
}

TEST(StepReplay, WithoutAPipelineItIsTheClosedForm) {
  ReplayQuestion question = pipelined(1, 1, 8);
  const double closed = step_seconds(question.workload, question.software, question.hardware).total;
  EXPECT_NEAR(replay_step(question).step_seconds, closed, 1e-9 * closed);
}

TEST(StepReplay, EqualStagesWaitAsTheFormulaSays) {
  for (const int64_t micro_batches : {8, 16, 64}) {
    const ReplayResult plain = replay_step(pipelined(8, 1, micro_batches));
    const double bubble = 7.0 / static_cast<double>(micro_batches);
    EXPECT_NEAR(plain.waiting_share, bubble / (1 + bubble), 1e-6);
    const ReplayResult interleaved = replay_step(pipelined(8, 2, micro_batches));
    EXPECT_NEAR(interleaved.waiting_share, bubble / 2 / (1 + bubble / 2), 1e-6);
  }
}

TEST(StepReplay, EachMicroBatchPassesEachStageTwice) {
  const ReplayResult result = replay_step(pipelined(4, 2, 8));
  EXPECT_EQ(result.spans.size(), 4u * 2 * 8 * 2);
  for (const ReplaySpan& span : result.spans) {
    EXPECT_LT(span.start, span.end);
    EXPECT_LE(span.end, result.gradients_start + 1e-12);
  }
}

TEST(StepReplay, SlowDevicesHoldUpAllAndTheSeedDecidesWhich) {
  ReplayQuestion question = pipelined(4, 1, 16);
  const double equal = replay_step(question).step_seconds;
  question.spread = 0.05;
  const ReplayResult one = replay_step(question);
  EXPECT_GT(one.step_seconds, 1.03 * equal);
  EXPECT_EQ(replay_step(question).step_seconds, one.step_seconds);
  question.seed = 2;
  EXPECT_NE(replay_step(question).step_seconds, one.step_seconds);
  question.workload.layout.dp = 64;
  question.workload.global_batch = 64 * 16;
  EXPECT_GT(replay_step(question).step_seconds, one.step_seconds);
}

TEST(StepReplay, SixteenThousandDevicesArePlayed) {
  ReplayQuestion question = pipelined(16, 1, 64);
  question.workload.layout.dp = 512;
  question.workload.global_batch = 512 * 64;
  question.spread = 0.03;
  EXPECT_GT(replay_step(question).step_seconds, 0);
}

TEST(StepReplay, TheTraceHasARowAStage) {
  const std::string text = chrome_trace(replay_step(pipelined(4, 1, 4)));
  for (const char* part : {"\"traceEvents\": [", "\"name\": \"F0\"", "\"name\": \"B3\"", "\"tid\": 3", "\"update\""}) {
    EXPECT_TRUE(contains(text, part));
  }
}

TEST(StepReplay, TooManyEventsAndImpossibleLayoutsAreRefused) {
  ReplayQuestion question = pipelined(16, 1, 1 << 20);
  question.workload.layout.dp = 64;
  question.workload.global_batch = int64_t{64} << 20;
  EXPECT_THROW(replay_step(question), ConfigError);
  EXPECT_THROW(replay_step(pipelined(64, 1, 8)), ConfigError);
}

}  // namespace
}  // namespace litespark
