// SPDX-License-Identifier: Apache-2.0
// The list of late characters is well formed.
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "token/unicode.h"

namespace litespark::token {
namespace {

TEST(UnicodeAdditions, AreRangesThatDoNotOverlap) {
  const std::set<std::string> categories = {"Lu", "Ll", "Lm", "Lo", "M", "Nd", "No", "P", "S"};
  std::set<char32_t> seen;
  for (const UnicodeAddition& addition : unicode_additions()) {
    EXPECT_LE(addition.first, addition.last);
    EXPECT_TRUE(categories.contains(addition.category)) << addition.category;
    for (char32_t c = addition.first; c <= addition.last; ++c) EXPECT_TRUE(seen.insert(c).second);
  }
  EXPECT_EQ(seen.size(), 10294u);  // characters of Unicode 16 that are not of Unicode 14, controls apart
}

}  // namespace
}  // namespace litespark::token
