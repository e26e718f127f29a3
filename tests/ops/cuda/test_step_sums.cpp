// SPDX-License-Identifier: Apache-2.0
// A step's message on the GPU.
#include "ops/cuda/cuda_conformance.h"
#include "ops/step_sums_cases.h"

namespace litespark::test {
namespace {

TEST(StepSums, AreAddedInRankOrderAndLeaveTheRestOfTheState) {
  expect_sums_in_rank_order(cuda_backend());
}

TEST(StepSums, CarryANanToEveryRank) {
  expect_a_nan_to_reach_all(cuda_backend());
}

TEST(StepSums, CountWhatAReplicaSawOnce) {
  expect_replicas_to_count_once(cuda_backend());
}

}  // namespace
}  // namespace litespark::test
