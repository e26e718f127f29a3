// SPDX-License-Identifier: Apache-2.0
// The writer's bytes: their order, their padding, their rounding; what it refuses; and a disk that fills up.
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "core/bf16.h"
#include "core/error.h"
#include "io/safetensors.h"
#include "io/safetensors_writer.h"
#include "support/error_text.h"
#include "support/failing_file_system.h"
#include "support/temporary_folder.h"

namespace litespark {
namespace {

using test::TemporaryFolder;

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

TEST(SafetensorsWriter, LaysOutLargeElementsFirstThenByName) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "a.safetensors";
  SafetensorsWriter writer(path, {{"u", SafetensorsDType::kU8, {3}},
                                  {"b", SafetensorsDType::kBF16, {1}},
                                  {"z", SafetensorsDType::kF32, {1}},
                                  {"a", SafetensorsDType::kF32, {}}});
  std::vector<std::string> order;
  for (const SafetensorsTensor& tensor : writer.order()) order.push_back(tensor.name);
  EXPECT_EQ(order, (std::vector<std::string>{"a", "z", "b", "u"}));
  EXPECT_THROW(writer.write("z", bytes_of("zzzz")), InternalError);
  writer.write("a", bytes_of("aa"));
  writer.write("a", bytes_of("AA"));
  writer.write("z", bytes_of("zzzz"));
  EXPECT_THROW(writer.write("b", bytes_of("bbb")), InternalError);
  writer.write("b", bytes_of("bb"));
  EXPECT_THROW(writer.commit(), InternalError);
  writer.write("u", bytes_of("uuu"));
  EXPECT_THROW(writer.write("u", bytes_of("u")), InternalError);
  writer.commit();
  EXPECT_EQ(static_cast<int64_t>(std::filesystem::file_size(path)), writer.file_bytes());
  const std::string text = test::file_text(path);
  EXPECT_TRUE(text.ends_with("aaAAzzzzbbuuu"));
  uint64_t length = 0;
  std::memcpy(&length, text.data(), sizeof(length));
  EXPECT_EQ(length % 8, 0U);
  EXPECT_TRUE(text.substr(8).starts_with(
      R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[],"data_offsets":[0,4]},)"));
  EXPECT_EQ(SafetensorsFile::open(path).metadata().at("format"), "pt");
}

TEST(SafetensorsWriter, RoundsToBf16AndKeepsF32InManyPieces) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "a.safetensors";
  std::vector<float> values(600001);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) * 1.00390625f - 7.0f;
  SafetensorsWriter writer(path,
                           {{"wide", SafetensorsDType::kF32, {600001}}, {"narrow", SafetensorsDType::kBF16, {600001}}});
  writer.write_f32("wide", values);
  writer.write_f32("narrow", std::span<const float>(values).first(5));
  writer.write_f32("narrow", std::span<const float>(values).subspan(5));
  writer.commit();
  const auto file = SafetensorsFile::open(path);
  std::vector<float> wide(values.size());
  std::vector<float> narrow(values.size());
  file.read_f32("wide", wide);
  file.read_f32("narrow", narrow);
  for (size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(wide[i], values[i]);
    ASSERT_EQ(narrow[i], to_float(to_bf16(values[i])));
  }
}

TEST(SafetensorsWriter, RefusesDeclarationsThatNoReaderWouldTake) {
  const TemporaryFolder folder;
  const auto refuse = [&](std::vector<SafetensorsWriter::Declaration> tensors) {
    EXPECT_THROW(SafetensorsWriter(folder.path() / "a", std::move(tensors)), InternalError);
    EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  };
  refuse({{"a", SafetensorsDType::kF32, {1}}, {"a", SafetensorsDType::kF32, {1}}});
  refuse({{"a", SafetensorsDType::kF32, {0}}});
  refuse({{"a", SafetensorsDType::kF32, {-1}}});
  refuse({{"a", SafetensorsDType::kF32, {int64_t{1} << 40, int64_t{1} << 40}}});
  refuse({{"\xff", SafetensorsDType::kF32, {1}}});
  refuse({{"__metadata__", SafetensorsDType::kF32, {1}}});
  SafetensorsWriter half(folder.path() / "b", {{"h", SafetensorsDType::kF16, {1}}});
  EXPECT_THROW(half.write_f32("h", std::vector<float>(1)), InternalError);
  EXPECT_EQ(safetensors_dtype_of(DType::kBF16), SafetensorsDType::kBF16);
  EXPECT_THROW(safetensors_dtype_of(DType::kI32), InternalError);
}

TEST(SafetensorsWriter, WritesAFileWithoutTensors) {
  const TemporaryFolder folder;
  SafetensorsWriter(folder.path() / "a", {}, {}).commit();
  EXPECT_TRUE(SafetensorsFile::open(folder.path() / "a").tensors().empty());
}

TEST(SafetensorsWriter, LeavesTheOldFileWhenAnyCallFails) {  // fault:A3
  for (int64_t call = 0;; ++call) {
    const TemporaryFolder folder;
    const auto path = folder.write("model.safetensors", "old");
    test::FailingFileSystem failing({.at_call = call, .error = ENOSPC});
    const ScopedFileSystem scope(failing);
    const auto write = [&] {
      SafetensorsWriter writer(path, {{"a", SafetensorsDType::kF32, {2}}});
      writer.write_f32("a", std::vector<float>{1, 2});
      writer.commit();
    };
    const bool is_after_rename = call == 7;  // open, 3 writes, fsync, close, rename, then the folder's fsync
    if (call == 8) {
      EXPECT_NO_THROW(write());
      EXPECT_FALSE(failing.has_failed());
      break;
    }
    const std::string message = error_text<IoError>(write);
    EXPECT_TRUE(contains(message, is_after_rename ? folder.path().string() : "model.safetensors")) << call;
    EXPECT_EQ(test::file_text(path) == "old", !is_after_rename) << call;
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1) << call;
  }
}

}  // namespace
}  // namespace litespark
