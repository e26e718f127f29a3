// SPDX-License-Identifier: Apache-2.0
// How near two runs of several ranks are to each other.
#pragma once

#include <gtest/gtest.h>

#include "train/rank_runs.h"

namespace litespark {

/// Losses within `loss_limit`, weights within `weight_limit`, both relative; the same tokens, and no step skipped.
inline void expect_near(const Outcome& found, const Outcome& expected, double loss_limit, double weight_limit) {
  ASSERT_EQ(found.records.size(), expected.records.size());
  for (size_t i = 0; i < expected.records.size(); ++i) {
    EXPECT_NEAR(found.records[i].loss, expected.records[i].loss, loss_limit * expected.records[i].loss) << i;
    EXPECT_NEAR(found.records[i].z_loss, expected.records[i].z_loss, 10 * loss_limit * expected.records[i].z_loss) << i;
    EXPECT_NEAR(found.records[i].grad_norm, expected.records[i].grad_norm,
                20 * loss_limit * expected.records[i].grad_norm)
        << i;
    EXPECT_EQ(found.records[i].supervised_tokens, expected.records[i].supervised_tokens);
    EXPECT_EQ(found.records[i].tokens, expected.records[i].tokens);
    EXPECT_FALSE(found.records[i].skipped);
  }
  EXPECT_LT(relative_difference(found.weights, expected.weights), weight_limit);
}

/// All that a run leaves, to the last bit.
inline void expect_same_bits(const Outcome& found, const Outcome& expected) {
  ASSERT_EQ(found.records.size(), expected.records.size());
  for (size_t i = 0; i < expected.records.size(); ++i) {
    EXPECT_EQ(found.records[i].loss, expected.records[i].loss) << i;
    EXPECT_EQ(found.records[i].z_loss, expected.records[i].z_loss) << i;
    EXPECT_EQ(found.records[i].grad_norm, expected.records[i].grad_norm) << i;
    EXPECT_EQ(found.records[i].supervised_tokens, expected.records[i].supervised_tokens);
    EXPECT_EQ(found.records[i].tokens, expected.records[i].tokens);
    EXPECT_FALSE(found.records[i].skipped);
  }
  EXPECT_EQ(found.weights, expected.weights);
  EXPECT_EQ(found.first_moment, expected.first_moment);
  EXPECT_EQ(found.second_moment, expected.second_moment);
}

}  // namespace litespark
