// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "anatomy/recompute.h"
#include "anatomy/tiny_measure.h"

namespace litespark::anatomy {
namespace {

const Chapter& tiny_chapter() {
  static const Chapter kChapter = recompute_chapter(*make_cpu_backend({.threads = 2}), tiny_measure(), tiny_sizes());
  return kChapter;
}

TEST(RecomputeChapter, HasEveryOptionAndEveryKWithTheSameGradients) {
  const Chapter& chapter = tiny_chapter();
  const Table& table = table_of(chapter, "options");
  ASSERT_EQ(table.rows.size(), 5u + 4u);
  EXPECT_EQ(table.rows.front().front().text, "none");
  EXPECT_EQ(table.rows.back().front().text, "every 4");
  for (const double same : column_of(table, 5)) EXPECT_EQ(same, 1);
  EXPECT_EQ(number_of(chapter, "bit_equal"), 1);
}

TEST(RecomputeChapter, SavesMemoryTheMoreItComputesAgain) {
  const Chapter& chapter = tiny_chapter();
  const std::vector<double> bytes = column_of(table_of(chapter, "options"), 3);
  // none > norm-act > attention >= block: each drops what the one before it dropped, and more.
  EXPECT_GT(bytes[0], bytes[1]);
  EXPECT_GT(bytes[1], bytes[2]);
  EXPECT_GE(bytes[2], bytes[4]);
  EXPECT_LT(*std::min_element(bytes.begin() + 5, bytes.end()), bytes[0]);
  EXPECT_GT(number_of(chapter, "planned_7b"), 0);
  EXPECT_GT(number_of(chapter, "planned_gpt2_xl"), 0);
}

}  // namespace
}  // namespace litespark::anatomy
