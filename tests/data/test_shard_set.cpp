// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>

#include "core/error.h"
#include "data/shard_samples.h"
#include "data/shard_set.h"
#include "support/error_text.h"
#include "support/temporary_folder.h"

namespace litespark {
namespace {

namespace fs = std::filesystem;

/// In place, with the time of change as it was.
void overwrite_first_token(const fs::path& folder, std::string_view bytes) {
  const fs::path path = folder / "shard-00000.tokens";
  const auto time = fs::last_write_time(path);
  std::fstream(path, std::ios::in | std::ios::out | std::ios::binary) << bytes;
  fs::last_write_time(path, time);
}

struct ShardSetTest : testing::Test {
  const test::TemporaryFolder scratch;
  fs::path folder = scratch.path() / "shard_set_test";
};

TEST_F(ShardSetTest, ReadsAcrossShardsWhatWasWritten) {
  for (const int64_t vocab : {int64_t{1000}, int64_t{65536}, int64_t{65537}, int64_t{128256}}) {  // report:B47
    const ShardDescription description = write_counting_shards(folder, 20, vocab);
    EXPECT_EQ(description.token_bytes, vocab <= 65536 ? 2 : 4);
    EXPECT_GT(description.shards.size(), 3u);
    const ShardSet set = ShardSet::open(folder);
    EXPECT_EQ(set.num_tokens(), 210);
    EXPECT_EQ(set.num_documents(), 20);
    EXPECT_EQ(set.description().text_bytes, 630);
    for (int64_t first = 0; first < 210; first += 13) {
      std::vector<int32_t> tokens(static_cast<size_t>(std::min<int64_t>(60, 210 - first)));
      set.read(first, tokens);
      for (size_t i = 0; i < tokens.size(); ++i) EXPECT_EQ(tokens[i], (first + static_cast<int64_t>(i)) % vocab);
    }
    EXPECT_EQ(set.document_begin(3), 6);
    EXPECT_EQ(set.document_end(3), 10);
    EXPECT_NO_THROW(set.verify());
  }
}

TEST_F(ShardSetTest, KeepsIdsAbove65535) {  // report:B47
  fs::remove_all(folder);
  ShardWriter writer(folder, {.vocab_size = 128256});
  const std::vector<int32_t> ids = {70000, 128255, 65536};
  writer.add(ids, 3);
  writer.finish();
  std::vector<int32_t> back(3);
  ShardSet::open(folder).read(0, back);
  EXPECT_EQ(back, ids);
}

TEST_F(ShardSetTest, RefusesFilesOfAnotherSize) {  // fault:D15
  write_counting_shards(folder, 20, 1000);
  fs::resize_file(folder / "shard-00001.tokens", 7);
  EXPECT_THROW(ShardSet::open(folder), DataError);
  write_counting_shards(folder, 20, 1000);
  fs::resize_file(folder / "shard-00001.ends", 8);
  EXPECT_THROW(ShardSet::open(folder), DataError);
  write_counting_shards(folder, 20, 1000);
  fs::remove(folder / "COMPLETE");
  EXPECT_THROW(ShardSet::open(folder), DataError);
}

TEST_F(ShardSetTest, AFileThatShrinksDuringTheRunIsAnErrorWithItsName) {  // fault:D15
  write_counting_shards(folder, 20, 1000);
  const ShardSet set = ShardSet::open(folder);
  fs::resize_file(folder / "shard-00000.tokens", 4);
  std::vector<int32_t> tokens(20);
  try {
    set.read(0, tokens);
    FAIL();
  } catch (const DataError& error) {
    EXPECT_NE(std::string(error.what()).find("shard-00000.tokens"), std::string::npos) << error.what();
  }
}

TEST_F(ShardSetTest, FindsIdsThatTheVocabularyLacks) {
  write_counting_shards(folder, 20, 1000);
  const ShardSet set = ShardSet::open(folder);
  overwrite_first_token(folder, "\xff\xff");
  std::vector<int32_t> tokens(20);
  EXPECT_TRUE(contains(error_text<DataError>([&] { set.read(0, tokens); }), "got 65535, expected 0 to 999"));
  EXPECT_THROW(set.verify(), DataError);
}

TEST_F(ShardSetTest, VerifyFindsAChangedTokenThatTheVocabularyHas) {  // fault:D15
  write_counting_shards(folder, 20, 1000);
  overwrite_first_token(folder, "\x05");
  EXPECT_TRUE(contains(error_text<DataError>([&] { ShardSet::open(folder).verify(); }), "shard-00000.tokens"));
}

TEST_F(ShardSetTest, AFileThatIsRewrittenDuringTheRunIsAnErrorWithItsName) {  // fault:D15
  write_counting_shards(folder, 20, 1000);
  const ShardSet set = ShardSet::open(folder);
  const fs::path path = folder / "shard-00000.tokens";
  overwrite_first_token(folder, "\x05");
  fs::last_write_time(path, fs::last_write_time(path) + std::chrono::seconds(1));
  std::vector<int32_t> tokens(20);
  EXPECT_TRUE(contains(error_text<DataError>([&] { set.read(0, tokens); }), "was changed while it was in use"));
}

TEST_F(ShardSetTest, BelievesNothingThatTheSealDoesNotCover) {
  const auto refusal = [&] { return error_text<DataError>([&] { ShardSet::open(folder); }); };
  for (const char* const name : {"shards.json", "shard-00000.ends", "manifest.json", "COMPLETE"}) {
    write_counting_shards(folder, 20, 1000);
    std::string text = test::file_text(folder / name);
    text[text.size() / 2] ^= 1;
    std::ofstream(folder / name, std::ios::binary) << text;
    refusal();
  }
  EXPECT_TRUE(contains(error_text<DataError>([&] { ShardSet::open(scratch.path() / "none"); }), "No such file"));
}

TEST_F(ShardSetTest, RefusesEndsThatDoNotRise) {
  write_counting_shards(folder, 20, 1000);
  {
    std::fstream file(folder / "shard-00000.ends", std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(8);
    const uint64_t end = 1;
    file.write(reinterpret_cast<const char*>(&end), sizeof(end));
  }
  EXPECT_THROW(ShardSet::open(folder), DataError);
}

TEST_F(ShardSetTest, FingerprintFollowsTheContent) {
  write_counting_shards(folder, 20, 1000);
  const std::string first = ShardSet::open(folder).fingerprint();
  write_counting_shards(folder, 20, 1000);
  EXPECT_EQ(ShardSet::open(folder).fingerprint(), first);
  write_counting_shards(folder, 20, 999);
  EXPECT_NE(ShardSet::open(folder).fingerprint(), first);
}

}  // namespace
}  // namespace litespark
