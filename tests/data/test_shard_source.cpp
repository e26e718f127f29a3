// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <map>

#include "core/error.h"
#include "data/loader.h"
#include "data/shard_samples.h"
#include "data/shard_source.h"
#include "support/temporary_folder.h"

namespace litespark {
namespace {

namespace fs = std::filesystem;

struct ShardSourceTest : testing::Test {
  const test::TemporaryFolder scratch;
  fs::path folder = scratch.path() / "shard_source_test";
  BatchShape packed{.num_tokens = 48, .max_documents = 8, .max_length = 16};
  BatchShape uniform{.num_tokens = 48, .max_documents = 3, .max_length = 16, .uniform = true};
  void SetUp() override { write_counting_shards(folder, 40, 1000, 100); }
  ShardSource source(PackingMode mode, uint64_t seed = 5) const {
    return ShardSource(ShardSet::open(folder),
                       {.shape = mode == PackingMode::kStream ? uniform : packed, .mode = mode, .seed = seed});
  }
};

TEST_F(ShardSourceTest, AnEpochHoldsEveryTokenOnceAndResumeContinuesIt) {  // fault:D17, report:B1, report:B2
  const ShardSource whole = source(PackingMode::kDocuments);
  const uint64_t epoch = whole.batches_per_epoch();
  std::map<int64_t, int> seen;
  for (uint64_t index = 0; index < epoch; ++index) {
    for (const Piece& piece : whole.pieces(index)) {
      for (int64_t i = 0; i < piece.count; ++i) ++seen[piece.first + i];
    }
  }
  EXPECT_EQ(seen.size(), 820u);
  for (const auto& [token, count] : seen) EXPECT_EQ(count, 1);
  for (const uint64_t stop : {uint64_t{3}, epoch - 1, epoch, 2 * epoch + 1}) {
    const ShardSource resumed = source(PackingMode::kDocuments);  // knows nothing of the batches before
    for (uint64_t index = stop; index < stop + 5; ++index) EXPECT_EQ(resumed.pieces(index), whole.pieces(index));
  }
}

TEST_F(ShardSourceTest, LabelsAreTheNextTokenOfTheSameDocument) {  // report:B13
  const ShardSource documents = source(PackingMode::kDocuments);
  Batch batch;
  batch.reset(packed);
  documents.fill(2, batch);
  for (int64_t i = 0; i < batch.tokens_used(); ++i) {
    const auto at = static_cast<size_t>(i);
    if (batch.labels[at] != op::kIgnoredLabel) {
      EXPECT_EQ(batch.labels[at], batch.ids[at] + 1);
    }
  }
  int64_t ignored = 0;
  for (const Piece& piece : documents.pieces(2)) ignored += piece.label_follows ? 0 : 1;
  EXPECT_EQ(batch.supervised_tokens(), batch.tokens_used() - ignored);
}

TEST_F(ShardSourceTest, AStreamCutsEqualWindowsAndShowsEachOncePerEpoch) {
  const ShardSource stream = source(PackingMode::kStream);
  std::map<int64_t, int> seen;
  for (uint64_t index = 0; index < 17; ++index) {  // 51 windows of 16 in 819 tokens
    Batch batch;
    batch.reset(uniform);
    stream.fill(index, batch);
    EXPECT_EQ(batch.supervised_tokens(), 48);
    for (const size_t row : {0u, 16u, 32u}) ++seen[batch.ids[row]];
  }
  EXPECT_EQ(seen.size(), 51u);
}

TEST_F(ShardSourceTest, SeedsGiveDifferentOrdersAndTheLoaderTheSameOne) {
  const ShardSource a = source(PackingMode::kDocuments, 1), b = source(PackingMode::kDocuments, 2);
  EXPECT_NE(a.pieces(0), b.pieces(0));
  EXPECT_NE(a.fingerprint(), b.fingerprint());
  Loader loader(a, {.shape = packed, .workers = 3});
  for (uint64_t index = 0; index < 60; ++index) {  // several epochs, out of order among the workers
    Batch batch;
    batch.reset(packed);
    a.fill(index, batch);
    EXPECT_EQ(loader.get(index).ids, batch.ids);
  }
}

TEST_F(ShardSourceTest, RefusesDocumentsThatLeaveNothingToPredict) {  // fault:D16, report:B12
  fs::remove_all(folder);
  {
    ShardWriter writer(folder, {.vocab_size = 10});
    for (const int32_t id : {1, 2, 3}) writer.add(std::span(&id, 1), 1);
    writer.finish();
  }
  EXPECT_THROW(source(PackingMode::kDocuments), DataError);
}

TEST_F(ShardSourceTest, RefusesAStreamShorterThanASequence) {  // fault:D16
  write_counting_shards(folder, 3, 1000);
  EXPECT_THROW(source(PackingMode::kStream), DataError);
}

}  // namespace
}  // namespace litespark
