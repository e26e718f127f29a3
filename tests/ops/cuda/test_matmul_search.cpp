// SPDX-License-Identifier: Apache-2.0
// The thorough search: neighbours of an algorithm are others, they need no more scratch than there is, and what is
// chosen among them is right.
#include <cstring>

#include "ops/cuda/cuda_backend_impl.h"
#include "ops/cuda/linear_cases.h"
#include "ops/cuda/matmul_plan.h"
#include "reference/matmul.h"

namespace litespark::test {
namespace {

TEST(MatmulSearch, NeighboursDifferAndFitTheScratch) {
  cublasLtHandle_t handle = nullptr;
  cuda::check(cublasLtCreate(&handle), "test");
  const cuda::MatmulProblem problem{.rows = 2048, .in_features = 1600, .out_features = 1600};
  const cuda::MatmulPlan plan(problem);
  constexpr int64_t kScratch = int64_t{4} << 20;
  const auto proposals = cuda::matmul_candidates(handle, plan, problem, {.workspace_bytes = kScratch, .count = 1});
  ASSERT_EQ(proposals.size(), 1u);
  for (const cuda::MatmulCandidate& neighbour : cuda::matmul_neighbours(handle, plan, proposals[0], kScratch)) {
    EXPECT_NE(std::memcmp(&neighbour.algorithm, &proposals[0].algorithm, sizeof(neighbour.algorithm)), 0);
    EXPECT_LE(neighbour.workspace_bytes, kScratch);
    EXPECT_TRUE(cuda::reduces_in_fixed_order(neighbour.algorithm));
  }
  cublasLtDestroy(handle);
}

TEST(MatmulSearch, WhatItChoosesIsRightAndRepeats) {
  const auto backend = make_cuda_backend({.matmul_search = MatmulSearch::kThorough});
  const GpuLinearCase c{.rows = 300, .inputs = 160, .outputs = 200};
  const auto forward = matmul_forward_case(c);
  expect_kernel_rule(forward.name, execute_on_cuda(forward, *backend),
                     reference::evaluate<double>(forward.op, forward.inputs),
                     reference::evaluate<float>(forward.op, forward.inputs));
  EXPECT_EQ(backend->tuning().size(), 1u);
}

}  // namespace
}  // namespace litespark::test
