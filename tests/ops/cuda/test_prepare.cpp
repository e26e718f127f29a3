// SPDX-License-Identifier: Apache-2.0
// What was timed once is kept: as text, in another backend, bit for bit.
#include "core/error.h"
#include "ops/cuda/linear_cases.h"

namespace litespark::test {
namespace {

TEST(Prepare, TimedChoicesMoveToAnotherBackendAndGiveTheSameBits) {
  const GpuLinearCase c{.rows = 512, .inputs = 256, .outputs = 384};
  const auto first = make_cuda_backend({});
  const auto test = matmul_forward_case(c);
  const Execution before = execute(*first, test);
  ASSERT_EQ(first->tuning().size(), 1u);
  const auto second = make_cuda_backend({});
  second->set_tuning(first->tuning());
  const Execution after = execute(*second, test);
  EXPECT_EQ(second->tuning(), first->tuning());
  EXPECT_EQ(after.bytes.at("y"), before.bytes.at("y"));
}

TEST(Prepare, ChoicesOfOtherProblemsAreKeptButNotReported) {
  const auto first = make_cuda_backend({});
  execute(*first, matmul_forward_case({.rows = 512, .inputs = 256, .outputs = 384}));
  const auto second = make_cuda_backend({});
  second->set_tuning(first->tuning());
  EXPECT_TRUE(second->tuning().empty());
}

TEST(Prepare, AChoiceThatIsNoAlgorithmIsRefused) {
  const auto backend = make_cuda_backend({});
  EXPECT_THROW(backend->set_tuning({{"matmul_forward n=1", "zz"}}), DataError);
}

}  // namespace
}  // namespace litespark::test
