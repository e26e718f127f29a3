// SPDX-License-Identifier: Apache-2.0
// The mean of the ranks' copies on the CPU.
#include "ops/copies_cases.h"
#include "ops/cpu_conformance.h"

namespace litespark::test {
namespace {

Execution run(const OpCase<op::MeanOfCopies<Tensor>>& test) {
  return execute_on_cpu(test);
}

TEST(MeanOfCopies, IsRoundedOnceAndTellsHowFarThisCopyWas) {
  expect_means_and_drift(run);
}

TEST(MeanOfCopies, MeasuresNothingWithoutAState) {
  expect_only_means_without_a_state(run);
}

TEST(MeanOfCopies, LeavesEqualCopiesAsTheyAre) {
  expect_no_drift_of_equal_copies(run);
}

TEST(MeanOfCopies, ShowsANan) {
  expect_a_nan_to_show_as_drift(run);
}

}  // namespace
}  // namespace litespark::test
