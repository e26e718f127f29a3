// SPDX-License-Identifier: Apache-2.0
// Which way a product with SwiGLU inside takes: timed once a shape, told by name, and taken back from a checkpoint.
#include "ops/cuda/cuda_conformance.h"
#include "ops/gated_cases.h"

namespace litespark::test {
namespace {

std::map<std::string, std::string> gated_choices(const Backend& backend) {
  std::map<std::string, std::string> found;
  for (const auto& [key, choice] : backend.tuning()) {
    if (key.starts_with("gated")) found[key] = choice;
  }
  return found;
}

TEST(GatedChoice, IsMadeOnceAShapeAndTakenBack) {
  const auto backend = make_cuda_backend({});
  if (backend->name().find("sm_90") == std::string::npos) GTEST_SKIP() << "no Hopper part here";
  execute(*backend, gated_forward_case({256, 64, 128, DType::kBF16}));
  execute(*backend, gated_backward_case({256, 64, 128, DType::kBF16}));
  std::map<std::string, std::string> choices = gated_choices(*backend);
  ASSERT_EQ(choices.size(), 2u);
  for (auto& [key, choice] : choices) {
    EXPECT_TRUE(choice == "joined" || choice == "apart") << choice;
    choice = choice == "joined" ? "apart" : "joined";
  }
  const auto resumed = make_cuda_backend({});
  resumed->set_tuning(choices);
  execute(*resumed, gated_forward_case({256, 64, 128, DType::kBF16}));
  execute(*resumed, gated_backward_case({256, 64, 128, DType::kBF16}));
  EXPECT_EQ(gated_choices(*resumed), choices);
}

TEST(GatedChoice, IsNotMadeWhereThereIsNoKernel) {
  const auto backend = make_cuda_backend({});
  execute(*backend, gated_forward_case({16, 8, 16, DType::kF32}));
  execute(*backend, gated_forward_case({16, 7, 16, DType::kBF16}));
  EXPECT_TRUE(gated_choices(*backend).empty());
}

}  // namespace
}  // namespace litespark::test
