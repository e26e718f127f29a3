// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "core/error.h"
#include "core/rng.h"
#include "prepare/byte_stream.h"
#include "prepare/compressed_files.h"
#include "support/temporary_folder.h"

namespace litespark {
namespace {

namespace fs = std::filesystem;

std::string read_all(const fs::path& path, size_t piece = 1000) {
  const auto stream = open_byte_stream(path);
  std::string text(piece, '\0'), all;
  while (const size_t count = stream->read(text)) all.append(text, 0, count);
  return all;
}

struct ByteStreamTest : testing::Test {
  const test::TemporaryFolder scratch;
  fs::path path = scratch.path() / "byte_stream_test";
  std::string text;
  void SetUp() override {
    for (uint64_t i = 0; i < 300000; ++i) text += static_cast<char>('a' + RandomStream(1, 1).below(i, 20));
  }
};

TEST_F(ByteStreamTest, TellsTheFormatByTheContent) {
  write_plain(path, text);
  EXPECT_EQ(read_all(path), text);
  write_gzip(path, text);
  EXPECT_EQ(read_all(path), text);
  write_plain(path, zstd_frame(text));
  EXPECT_EQ(read_all(path, 7), text);
  write_plain(path, "");
  EXPECT_EQ(read_all(path), "");
  write_plain(path, "ab");
  EXPECT_EQ(read_all(path), "ab");
}

TEST_F(ByteStreamTest, ReadsMembersAndFramesOneAfterTheOther) {
  write_plain(path, zstd_frame(text) + zstd_frame("tail"));
  EXPECT_EQ(read_all(path), text + "tail");
  write_gzip(path, text);
  const fs::path second = path.string() + "2";
  write_gzip(second, "tail");
  std::ifstream in(second, std::ios::binary);
  std::ofstream(path, std::ios::binary | std::ios::app) << in.rdbuf();
  EXPECT_EQ(read_all(path), text + "tail");
}

TEST_F(ByteStreamTest, RefusesTruncatedAndDamagedData) {
  write_gzip(path, text);
  fs::resize_file(path, fs::file_size(path) / 2);
  EXPECT_THROW(read_all(path), DataError);
  std::string frame = zstd_frame(text);
  write_plain(path, frame.substr(0, frame.size() / 2));
  EXPECT_THROW(read_all(path), DataError);
  frame[frame.size() / 2] = static_cast<char>(~frame[frame.size() / 2]);
  frame[frame.size() / 2 + 1] = static_cast<char>(~frame[frame.size() / 2 + 1]);
  write_plain(path, "\x28\xb5\x2f\xfd not a frame at all");
  EXPECT_THROW(read_all(path), DataError);
}

}  // namespace
}  // namespace litespark
