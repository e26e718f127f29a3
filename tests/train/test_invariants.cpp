// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/error.h"
#include "ops/cpu/cpu_backend.h"
#include "support/temporary_folder.h"
#include "train/invariants.h"

namespace litespark {
namespace {

TEST(Invariants, HoldOnThisMachine) {
  const auto backend = make_cpu_backend({.threads = 2});
  const test::TemporaryFolder scratch;
  const std::vector<VerifyCheck> checks = check_invariants(*backend, scratch.path());
  ASSERT_EQ(checks.size(), 4u);
  for (const VerifyCheck& check : checks) EXPECT_TRUE(check.pass) << check.name << " " << check.error;
}

TEST(Invariants, TheSmallModelLearnsAndRepeatsItsBits) {
  const auto backend = make_cpu_backend({.threads = 2});
  const SmallTraining first = train_small_model(*backend);
  ASSERT_EQ(first.losses.size(), 4u);
  EXPECT_TRUE(std::isfinite(first.losses.back()));
  EXPECT_TRUE(is_same_training(first, train_small_model(*backend)));
  const auto generic = make_cpu_backend({.threads = 1, .max_isa = CpuIsa::kGeneric});
  EXPECT_LT(training_difference(first, train_small_model(*generic)), 1e-3);
}

TEST(Invariants, ADifferenceIsSeenInEveryLossAndWeight) {
  const SmallTraining whole{.losses = {2.0, 1.0}, .weights = {3.0f, 4.0f}};
  EXPECT_EQ(training_difference(whole, whole), 0.0);
  SmallTraining other = whole;
  other.losses[0] = 2.5;
  EXPECT_DOUBLE_EQ(training_difference(other, whole), 0.25);
  EXPECT_FALSE(is_same_training(other, whole));
  other = whole;
  other.weights[1] = 5.0f;
  EXPECT_DOUBLE_EQ(training_difference(other, whole), 0.2);
  EXPECT_FALSE(is_same_training(other, whole));
  other.weights[1] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isinf(training_difference(other, whole)));
  other.weights.pop_back();
  EXPECT_TRUE(std::isinf(training_difference(other, whole)));
}

TEST(Invariants, AFolderThatCannotBeMadeIsAStorageError) {
  const auto backend = make_cpu_backend({.threads = 1});
  const test::TemporaryFolder folder;
  EXPECT_THROW(check_invariants(*backend, folder.write("file", "")), IoError);
}

}  // namespace
}  // namespace litespark
