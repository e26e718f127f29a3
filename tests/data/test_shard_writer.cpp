// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "core/error.h"
#include "data/shard_samples.h"
#include "data/shard_writer.h"
#include "support/temporary_folder.h"

namespace litespark {
namespace {

namespace fs = std::filesystem;

struct ShardWriterTest : testing::Test {
  const test::TemporaryFolder scratch;
  fs::path folder = scratch.path() / "shard_writer_test";
  void SetUp() override { fs::remove_all(folder); }
};

TEST_F(ShardWriterTest, StartsANewShardBeforeADocumentThatDoesNotFit) {
  const ShardDescription description = write_counting_shards(folder, 20, 1000, 50);
  int64_t documents = 0;
  for (const ShardInfo& shard : description.shards) {
    EXPECT_LE(shard.tokens, 50);
    documents += shard.documents;
  }
  EXPECT_EQ(documents, 20);
}

TEST_F(ShardWriterTest, RefusesIdsOutsideTheVocabularyAndLeavesNothing) {
  {
    ShardWriter writer(folder, {.vocab_size = 10});
    writer.add(std::vector<int32_t>{1, 2}, 2);
    EXPECT_THROW(writer.add(std::vector<int32_t>{10}, 1), DataError);
    EXPECT_THROW(writer.add(std::vector<int32_t>{-1}, 1), DataError);
  }
  EXPECT_FALSE(fs::exists(folder));
}

TEST_F(ShardWriterTest, RefusesToSealNothing) {  // fault:D16
  ShardWriter writer(folder, {.vocab_size = 10});
  writer.add({}, 0);
  EXPECT_THROW(writer.finish(), DataError);
}

TEST_F(ShardWriterTest, GivesADocumentLongerThanAShardOneOfItsOwn) {
  ShardWriter writer(folder, {.vocab_size = 10, .max_shard_tokens = 4});
  writer.add(std::vector<int32_t>(9, 1), 9);
  writer.add(std::vector<int32_t>(2, 1), 2);
  const ShardDescription description = writer.finish();
  ASSERT_EQ(description.shards.size(), 2u);
  EXPECT_EQ(description.shards[0].tokens, 9);
}

}  // namespace
}  // namespace litespark
