// SPDX-License-Identifier: Apache-2.0
#include "anatomy/tiny_measure.h"
#include "anatomy/width.h"
#include "core/error.h"

namespace litespark::anatomy {
namespace {

TEST(WidthChapter, TriesTheAskedWidthAndAlignedNeighbours) {
  EXPECT_EQ(candidate_widths(11008), (std::vector<int64_t>{10240, 10752, 11008, 11264, 12288}));
  EXPECT_EQ(candidate_widths(100), (std::vector<int64_t>{64, 100, 128}));
}

TEST(WidthChapter, MeasuresEveryCandidateAndSaysWhatToTake) {
  const auto backend = make_cpu_backend({.threads = 1});
  const WidthTable table = measure_widths(*backend, tiny_measure(), {.rows = 4, .hidden = 16, .width = 100});
  EXPECT_NO_THROW(table.validate());
  EXPECT_EQ(table.widths.size(), 3u);
  const Chapter chapter = width_chapter(table, 100);
  EXPECT_EQ(table_of(chapter, "widths").rows.size(), 3u);
  EXPECT_GT(number_of(chapter, "aligned_rate"), 0);
  EXPECT_FALSE(chapter.find("aligned_time")->advice.empty());
  EXPECT_THROW(width_chapter(table, 101), InternalError);
}

}  // namespace
}  // namespace litespark::anatomy
