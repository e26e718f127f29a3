// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <vector>

#include "core/error.h"
#include "core/permutation.h"

namespace litespark {
namespace {

TEST(Permutation, VisitsEveryValueExactlyOnce) {
  for (const uint64_t size : {1u, 2u, 3u, 7u, 64u, 65u, 1000u, 4099u}) {
    const Permutation permutation(size, 11, 5);
    std::vector<int> seen(size, 0);
    for (uint64_t i = 0; i < size; ++i) ++seen.at(permutation(i));
    for (const int count : seen) EXPECT_EQ(count, 1);
  }
}

TEST(Permutation, ChangesWithTheEpochAndTheSeed) {
  const Permutation first(1000, 1, 0);
  int same_epoch = 0, same_seed = 0;
  for (uint64_t i = 0; i < 1000; ++i) {
    same_epoch += first(i) == Permutation(1000, 1, 1)(i);
    same_seed += first(i) == Permutation(1000, 2, 0)(i);
  }
  EXPECT_LT(same_epoch, 20);
  EXPECT_LT(same_seed, 20);
}

TEST(Permutation, LeavesNoTraceOfTheOrderOfNeighbours) {
  const Permutation permutation(10000, 3, 9);
  int ascending = 0;
  for (uint64_t i = 0; i + 1 < 10000; ++i) ascending += permutation(i) < permutation(i + 1);
  EXPECT_NEAR(ascending, 5000, 250);
}

TEST(Permutation, RefusesPositionsOutside) {
  EXPECT_THROW(Permutation(0, 1, 1), InternalError);
  EXPECT_THROW(Permutation(5, 1, 1)(5), InternalError);
}

}  // namespace
}  // namespace litespark
