// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "anatomy/prepared_model.h"
#include "anatomy/tiny_measure.h"

namespace litespark::anatomy {
namespace {

TEST(PreparedModel, HasTheLossOfAModelThatKnowsNothing) {
  const auto backend = make_cpu_backend({.threads = 1});
  PreparedModel model(*backend, tiny_sizes(), train_options(tiny_sizes(), DType::kF32));
  model.run();
  EXPECT_NEAR(model.loss(), std::log(64.0), 0.05);
}

TEST(PreparedModel, LeavesTheSameGradientsInEveryRun) {
  const auto backend = make_cpu_backend({.threads = 2});
  PreparedModel model(*backend, tiny_sizes(), train_options(tiny_sizes(), DType::kF32));
  model.run();
  const std::vector<float> first = model.gradients();
  model.run();
  EXPECT_EQ(model.gradients(), first);
  EXPECT_EQ(std::ssize(first), model.executor().program().params.num_parameters);
}

}  // namespace
}  // namespace litespark::anatomy
