// SPDX-License-Identifier: Apache-2.0
// Gradients as 16-bit messages on the GPU.
#include "ops/compression_cases.h"
#include "ops/cuda/cuda_conformance.h"

namespace litespark::test {
namespace {

const auto run = [](const auto& test) { return execute_on_cuda(test); };

TEST(Compression, AMessageIsTheNearestAndWithItsResidualTheGradientExactly) {
  expect_nearest_messages_and_exact_residuals(run);
}

TEST(Compression, WithoutAResidualMessagesAreTheSame) {
  expect_the_same_messages_without_a_residual(run);
}

TEST(Compression, EveryBlockHasItsOwnRange) {
  expect_every_block_to_have_its_range(run);
}

TEST(Compression, InfAndNanSurviveAndNothingOfThemIsKept) {
  expect_inf_and_nan_to_survive_alone(run);
}

TEST(Compression, TheMeanOfManyStepsIsRightWithFeedbackAndWrongWithout) {
  expect_the_mean_to_be_right_with_feedback_alone(run);
}

TEST(Compression, EveryWordIsReadAsWhatItSays) {
  expect_every_word_to_be_read(run);
}

TEST(Compression, MessagesAreAddedInRankOrder) {
  expect_messages_to_be_added_in_rank_order(run);
}

TEST(Compression, AResidualGoesWithASkippedStep) {
  expect_a_residual_to_go_with_a_skipped_step(run);
}

}  // namespace
}  // namespace litespark::test
