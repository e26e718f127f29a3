// SPDX-License-Identifier: Apache-2.0
#include "anatomy/loader.h"
#include "anatomy/tiny_measure.h"
#include "data/synthetic_source.h"
#include "support/temporary_folder.h"

namespace litespark::anatomy {
namespace {

TEST(LoaderChapter, TriesEverySourceWithEveryNumberOfWorkers) {
  const auto backend = make_cpu_backend({.threads = 1});
  const test::TemporaryFolder folder;
  const Chapter chapter = loader_chapter(
      *backend, tiny_measure(), {.sequences = 2, .length = 16, .num_batches = 3, .most_workers = 2, .step_seconds = 0},
      folder.path());
  const Table& table = table_of(chapter, "workers");
  ASSERT_TRUE(table.rows.size() == 3u || table.rows.size() == 6u);
  for (size_t row = 0; row < table.rows.size(); ++row) {
    EXPECT_EQ(table.rows[row][1].number, static_cast<double>(row % 3));
    EXPECT_GE(table.rows[row][3].number, 0);
    EXPECT_LE(table.rows[row][3].number, 1);
  }
  EXPECT_GT(number_of(chapter, "read_share"), 0);
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "shards" / "COMPLETE"));
}

TEST(LoaderChapter, ComputesOnceForEveryMicroBatch) {
  const BatchShape shape{.num_tokens = 8, .max_documents = 2, .max_length = 4, .uniform = true};
  const SyntheticSource source(1, 10, shape);
  int computed = 0;
  const LoaderStall stall = measure_stall(source, {.shape = shape, .workers = 0}, 5, [&] { ++computed; });
  EXPECT_EQ(computed, 5);
  EXPECT_LE(stall.wait_seconds, stall.whole_seconds);
}

}  // namespace
}  // namespace litespark::anatomy
