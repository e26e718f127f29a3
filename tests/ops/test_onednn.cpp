// SPDX-License-Identifier: Apache-2.0
// The library wrapper: primitives are made once, every thread's slot has its own pointers, sums go on top of old ones.
#include <gtest/gtest.h>

#include <vector>

#include "ops/cpu/onednn.h"

namespace litespark::cpu {
namespace {

TEST(Onednn, APrimitiveIsMadeOncePerProblem) {
  Onednn library(2);
  const GemmProblem problem{.m = 4, .n = 5, .k = 6};
  GemmProblem other = problem;
  other.accumulate = true;
  EXPECT_EQ(&library.gemm(problem), &library.gemm(problem));
  EXPECT_NE(&library.gemm(problem), &library.gemm(other));
}

TEST(Onednn, AccumulatesOnTopOfTheDestination) {
  Onednn library(1);
  const GemmProblem problem{.m = 2, .n = 2, .k = 3, .layout = WeightLayout::kTransposed, .accumulate = true};
  const std::vector<float> a = {1, 2, 3, 4, 5, 6};
  const std::vector<float> b = {1, 0, 0, 0, 1, 1};
  std::vector<float> c = {10, 20, 30, 40};
  std::vector<std::byte> scratch(static_cast<size_t>(library.scratch_bytes(problem) + 64));
  ASSERT_TRUE(
      library.execute(library.gemm(problem),
                      {.source = a.data(), .weights = b.data(), .destination = c.data(), .scratch = scratch.data()}));
  EXPECT_EQ(c, (std::vector<float>{11, 25, 34, 51}));
}

TEST(Onednn, AnswersAboutScratchWithoutMakingThePrimitiveRun) {
  Onednn library(2);
  EXPECT_GE(library.scratch_bytes({.m = 128, .n = 64, .k = 32, .sequential = true}), 0);
  EXPECT_EQ(library.packed_bytes(8, 16, DType::kF32) % 4, 0);
  EXPECT_GE(library.packed_bytes(8, 16, DType::kF32), 8 * 16 * 4);
}

TEST(Onednn, SlotsHoldTheirOwnPointers) {
  Onednn library(2);
  const GemmProblem problem{.m = 1, .n = 1, .k = 2, .sequential = true};
  const std::vector<float> a = {1, 2, 3, 4};
  const std::vector<float> b = {1, 1};
  std::vector<float> c(2);
  std::vector<std::byte> scratch(static_cast<size_t>(library.scratch_bytes(problem) + 64));
  Gemm& gemm = library.gemm(problem);
  for (int thread = 0; thread < 2; ++thread) {
    EXPECT_TRUE(library.execute(gemm, {.source = a.data() + 2 * thread,
                                       .weights = b.data(),
                                       .destination = c.data() + thread,
                                       .scratch = scratch.data(),
                                       .slot = thread}));
  }
  EXPECT_EQ(c, (std::vector<float>{3, 7}));
}

}  // namespace
}  // namespace litespark::cpu
