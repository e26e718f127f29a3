// SPDX-License-Identifier: Apache-2.0
// Timing picks one of the candidates that it was given, and says when it cannot run any.
#include <gtest/gtest.h>

#include "ops/cuda/cuda_backend_impl.h"
#include "ops/cuda/matmul_plan.h"

namespace litespark::cuda {
namespace {

TEST(MatmulTiming, PicksACandidateThatRuns) {
  const CudaBackend backend({});
  cublasLtHandle_t handle = nullptr;
  check(cublasLtCreate(&handle), "test");
  const MatmulProblem problem{.rows = 256, .in_features = 128, .out_features = 512};
  const MatmulPlan plan(problem);
  const std::vector<MatmulCandidate> candidates =
      matmul_candidates(handle, plan, problem, {.workspace_bytes = kMatmulWorkspaceBytes, .count = 8});
  ASSERT_FALSE(candidates.empty());
  for (const TimingLength length : {TimingLength::kShort, TimingLength::kSustained}) {
    const int fastest = fastest_candidate(handle, backend.context(), plan, problem, candidates, length);
    EXPECT_GE(fastest, 0);
    EXPECT_LT(fastest, static_cast<int>(candidates.size()));
    EXPECT_EQ(fastest_candidate(handle, backend.context(), plan, problem, {}, length), -1);
  }
  cublasLtDestroy(handle);
}

TEST(MatmulTiming, OperandsThatDoNotFitLeaveTheFirstGuess) {
  const CudaBackend backend({});
  cublasLtHandle_t handle = nullptr;
  check(cublasLtCreate(&handle), "test");
  const MatmulProblem problem{.rows = int64_t{1} << 24, .in_features = 1 << 18, .out_features = 8};
  const MatmulPlan plan(problem);
  const std::vector<MatmulCandidate> one(1);
  EXPECT_EQ(fastest_candidate(handle, backend.context(), plan, problem, one, TimingLength::kShort), -1);
  cublasLtDestroy(handle);
}

}  // namespace
}  // namespace litespark::cuda
