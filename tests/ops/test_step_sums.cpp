// SPDX-License-Identifier: Apache-2.0
// A step's message on the CPU.
#include "ops/cpu/cpu_backend.h"
#include "ops/step_sums_cases.h"

namespace litespark::test {
namespace {

TEST(StepSums, AreAddedInRankOrderAndLeaveTheRestOfTheState) {
  expect_sums_in_rank_order(*make_cpu_backend({.threads = 1}));
}

TEST(StepSums, CountWhatAReplicaSawOnce) {
  expect_replicas_to_count_once(*make_cpu_backend({.threads = 1}));
}

TEST(StepSums, CarryANanToEveryRank) {
  expect_a_nan_to_reach_all(*make_cpu_backend({.threads = 1}));
}

}  // namespace
}  // namespace litespark::test
