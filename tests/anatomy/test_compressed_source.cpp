// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <numeric>

#include "anatomy/compressed_source.h"
#include "core/error.h"
#include "core/op/loss.h"
#include "support/temporary_folder.h"

namespace litespark::anatomy {
namespace {

constexpr const char* kNoReader = "this build reads no compressed files (LITESPARK_TEXT=OFF)";
constexpr BatchShape kShape{.num_tokens = 12, .max_documents = 3, .max_length = 4, .uniform = true};

TEST(CompressedSource, GivesBackTheTokensWithTheNextOnesAsLabels) {
  const test::TemporaryFolder folder;
  std::vector<int32_t> tokens(30);
  std::iota(tokens.begin(), tokens.end(), 40000);
  const auto source = make_compressed_source(folder.path(), kShape, tokens);
  if (source == nullptr) GTEST_SKIP() << kNoReader;
  EXPECT_EQ(source->batches_per_epoch(), 2u);
  Batch batch;
  batch.reset(kShape);
  source->fill(3, batch);  // the second file again
  EXPECT_EQ(batch.ids,
            (std::vector<int32_t>{40015, 40016, 40017, 40018, 40020, 40021, 40022, 40023, 40025, 40026, 40027, 40028}));
  EXPECT_EQ(batch.labels[3], 40019);
  EXPECT_EQ(batch.labels[4], 40021);
  EXPECT_EQ(batch.num_documents, 3);
}

TEST(CompressedSource, RefusesTooFewTokens) {
  const test::TemporaryFolder folder;
  const std::vector<int32_t> tokens(14);
  if (make_compressed_source(folder.path(), kShape, std::vector<int32_t>(15)) == nullptr) GTEST_SKIP() << kNoReader;
  EXPECT_THROW(make_compressed_source(folder.path(), kShape, tokens), InternalError);
}

TEST(CompressedSource, SaysWhichFileIsDamaged) {
  const test::TemporaryFolder folder;
  const auto source = make_compressed_source(folder.path(), kShape, std::vector<int32_t>(15));
  if (source == nullptr) GTEST_SKIP() << kNoReader;
  folder.write("batch-0.gz", "short");
  Batch batch;
  batch.reset(kShape);
  EXPECT_THROW(source->fill(0, batch), DataError);
}

}  // namespace
}  // namespace litespark::anatomy
