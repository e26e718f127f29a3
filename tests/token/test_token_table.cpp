// SPDX-License-Identifier: Apache-2.0
// Texts and ids find each other; duplicates are told.
#include <gtest/gtest.h>

#include "token/token_table.h"

namespace litespark::token {
namespace {

TEST(TokenTable, MapsTextsToIdsAndBack) {
  TokenTable table(1000, 500);
  for (int32_t id = 0; id < 1000; id += 2) EXPECT_TRUE(table.insert("token" + std::to_string(id), id));
  for (int32_t id = 0; id < 1000; ++id) {
    EXPECT_EQ(table.contains(id), id % 2 == 0);
    EXPECT_EQ(table.find("token" + std::to_string(id)), id % 2 == 0 ? id : kNoId);
  }
  EXPECT_EQ(table.text(998), "token998");
  EXPECT_EQ(table.count(), 500);
  EXPECT_EQ(table.size(), 1000);
  EXPECT_FALSE(table.contains(-1));
  EXPECT_FALSE(table.contains(1000));
}

TEST(TokenTable, RefusesATextOrAnIdTwice) {
  TokenTable table(3, 3);
  EXPECT_TRUE(table.insert("", 0));
  EXPECT_TRUE(table.insert("a", 1));
  EXPECT_FALSE(table.insert("a", 2));
  EXPECT_FALSE(table.insert("b", 1));
  EXPECT_EQ(table.find(""), 0);
}

}  // namespace
}  // namespace litespark::token
