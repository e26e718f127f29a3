// SPDX-License-Identifier: Apache-2.0
// fault:D1, fault:D6: files whose length field lies, that are cut, or that are something else; and exact conversion.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>

#include "core/bf16.h"
#include "core/error.h"
#include "io/safetensors.h"
#include "support/error_text.h"
#include "support/safetensors_bytes.h"
#include "support/temporary_folder.h"

namespace litespark {
namespace {

using test::safetensors_bytes;
using test::TemporaryFolder;

constexpr const char* kOneTensor = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";

std::string refusal(const std::string& bytes) {
  const TemporaryFolder folder;
  const auto path = folder.write("model.safetensors", bytes);
  const std::string message = error_text<DataError>([&] { SafetensorsFile::open(path); });
  EXPECT_TRUE(contains(message, "model.safetensors"));
  return message;
}

TEST(Safetensors, RefusesAHeaderLengthThatLies) {  // fault:D1
  const std::string header = kOneTensor;
  const std::string data(8, '\0');
  for (const uint64_t length : {uint64_t{100000001}, uint64_t{1} << 31, uint64_t{1} << 32, uint64_t{1} << 62,
                                uint64_t{1} << 63, std::numeric_limits<uint64_t>::max()}) {
    EXPECT_TRUE(contains(refusal(safetensors_bytes(header, data, length)), "too long")) << length;
  }
  const uint64_t all = header.size() + data.size();
  EXPECT_TRUE(contains(refusal(safetensors_bytes(header, data, all + 1)), "longer than the file"));
  EXPECT_TRUE(contains(refusal(safetensors_bytes(header, data, 100000000)), "longer than the file"));
  EXPECT_TRUE(contains(refusal(safetensors_bytes(header, data, all)), "not valid JSON"));
  EXPECT_TRUE(contains(refusal(safetensors_bytes(header, data, 0)), "not a JSON object"));
  EXPECT_TRUE(contains(refusal(safetensors_bytes(header, data, 1)), "not a JSON object"));
  EXPECT_TRUE(contains(refusal(safetensors_bytes(header, data, header.size() - 1)), "not valid JSON"));
}

TEST(Safetensors, RefusesEveryTruncationOfAFile) {
  const std::string bytes = safetensors_bytes(kOneTensor, std::string(8, 'x'));
  for (size_t size = 0; size < bytes.size(); ++size) refusal(bytes.substr(0, size));
  EXPECT_TRUE(contains(refusal(bytes + "PK\x03\x04 a second file"), "bytes after the last tensor"));
}

TEST(Safetensors, NamesOtherFormatsAndSaysWhatToDo) {  // fault:D6
  const std::string pickle = "load them in PyTorch and save them with safetensors";
  EXPECT_TRUE(contains(refusal(std::string("PK\x03\x04\x00\x00\x08\x08\x00\x00", 10) + "archive/data.pkl"), pickle));
  EXPECT_TRUE(contains(refusal("\x80\x02}q\x00X\x05\x00\x00\x00modelq"), pickle));
  EXPECT_TRUE(contains(refusal("\x80\x04\x95 ...................."), pickle));
  EXPECT_TRUE(contains(refusal(std::string("GGUF\x03\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00", 16)), "GGUF"));
  EXPECT_TRUE(contains(refusal("\x93NUMPY\x01.........."), "NumPy"));
  EXPECT_TRUE(contains(refusal("\x1f\x8b\x08........."), "gzip"));
  EXPECT_TRUE(contains(refusal("version https://git-lfs.github.com/spec/v1\noid sha256:00\n"), "git lfs pull"));
}

TEST(Safetensors, ReadsAHeaderWhoseLengthLooksLikeAnotherFormat) {
  // 0x80 0x02 as a length is 640: a pickle's magic number, and a header like any other.
  std::string header = kOneTensor;
  header.resize(640, ' ');
  const TemporaryFolder folder;
  const auto file =
      SafetensorsFile::open(folder.write("a.safetensors", safetensors_bytes(header, std::string(8, 'x'))));
  EXPECT_EQ(file.names(), std::vector<std::string>{"a"});
}

TEST(Safetensors, ReadsWholeTensorsAndPieces) {
  const TemporaryFolder folder;
  const std::string header =
      R"({"__metadata__":{"k":"v"},"b":{"dtype":"I16","shape":[2,2],"data_offsets":[3,11]},"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}})";
  const auto file = SafetensorsFile::open(folder.write("x.safetensors", safetensors_bytes(header, "abcDEFGHIJK")));
  EXPECT_EQ(file.names(), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(file.metadata().at("k"), "v");
  EXPECT_EQ(file.find("c"), nullptr);
  EXPECT_EQ(file.info("b").shape, (std::vector<int64_t>{2, 2}));
  std::string text(8, '\0');
  file.read("b", std::as_writable_bytes(std::span(text)));
  EXPECT_EQ(text, "DEFGHIJK");
  file.read_bytes("b", 6, std::as_writable_bytes(std::span(text)).first(2));
  EXPECT_EQ(text.substr(0, 2), "JK");
  EXPECT_THROW(file.read("a", std::as_writable_bytes(std::span(text))), InternalError);
  EXPECT_THROW(file.read_bytes("b", 7, std::as_writable_bytes(std::span(text)).first(2)), InternalError);
  EXPECT_THROW(file.read_bytes("b", -1, std::as_writable_bytes(std::span(text)).first(2)), InternalError);
  EXPECT_TRUE(contains(error_text<DataError>([&] { file.info("c"); }), "has no tensor \"c\""));
  std::vector<float> values(3);
  EXPECT_TRUE(contains(error_text<DataError>([&] { file.read_f32("a", values); }), "U8"));
}

TEST(Safetensors, ReportsAFileThatShrinksWhileOpen) {
  const TemporaryFolder folder;
  const auto path = folder.write("x.safetensors", safetensors_bytes(kOneTensor, std::string(8, 'x')));
  const auto file = SafetensorsFile::open(path);
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1);
  std::vector<float> values(2);
  EXPECT_TRUE(contains(error_text<DataError>([&] { file.read_f32("a", values); }), "ends too early"));
}

template <class Stored>
std::vector<float> converted(SafetensorsDType dtype, const std::vector<Stored>& stored) {
  std::vector<float> out(stored.size());
  convert_to_f32(dtype, std::as_bytes(std::span(stored)), out);
  return out;
}

TEST(Safetensors, ConvertsEveryHalfToTheFloatOfTheSameValue) {
  std::vector<uint16_t> bits(65536);
  for (size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<uint16_t>(i);
  const std::vector<float> values = converted(SafetensorsDType::kF16, bits);
  for (size_t i = 0; i < bits.size(); ++i) {
    const int exponent = static_cast<int>((i >> 10) & 31U);
    const int fraction = static_cast<int>(i & 1023U);
    const double sign = (i >> 15) != 0 ? -1.0 : 1.0;
    const double expected = exponent == 31  ? (fraction == 0 ? std::numeric_limits<double>::infinity() : std::nan(""))
                            : exponent == 0 ? std::ldexp(fraction, -24)
                                            : std::ldexp(1024 + fraction, exponent - 25);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(values[i])) << i;
    } else {
      ASSERT_EQ(static_cast<double>(values[i]), sign * expected) << i;
    }
    ASSERT_EQ(std::signbit(values[i]), (i >> 15) != 0) << i;
  }
}

TEST(Safetensors, ConvertsTheOtherFloatsAsTheirNamesSay) {
  EXPECT_EQ(converted<bf16>(SafetensorsDType::kBF16, {{0x3f80}, {0xc049}, {0x0001}}),
            (std::vector<float>{1.0f, -3.140625f, std::bit_cast<float>(0x00010000u)}));
  EXPECT_EQ(converted<double>(SafetensorsDType::kF64, {0.1, -1e300, 2.0}),
            (std::vector<float>{0.1f, -std::numeric_limits<float>::infinity(), 2.0f}));
  EXPECT_EQ(converted<float>(SafetensorsDType::kF32, {0.1f, -0.0f}), (std::vector<float>{0.1f, -0.0f}));
  EXPECT_THROW(converted<int32_t>(SafetensorsDType::kI32, {1}), InternalError);
}

TEST(Safetensors, ReadsLongTensorsOfEveryFloatInPieces) {
  // More elements than one piece holds, and an odd rest.
  constexpr size_t kCount = 700001;
  const TemporaryFolder folder;
  for (const auto& [name, bytes] : {std::pair{"BF16", 2U}, std::pair{"F64", 8U}}) {
    std::string data(kCount * bytes, '\0');
    for (size_t i = 0; i < kCount; ++i) {
      const float value = static_cast<float>(i % 251);
      const bf16 narrow = to_bf16(value);
      const double wide = value;
      std::memcpy(data.data() + i * bytes, bytes == 2 ? static_cast<const void*>(&narrow) : &wide, bytes);
    }
    const std::string header = std::string(R"({"a":{"dtype":")") + name + R"(","shape":[)" + std::to_string(kCount) +
                               R"(],"data_offsets":[0,)" + std::to_string(data.size()) + "]}}";
    const auto file = SafetensorsFile::open(folder.write("a.safetensors", safetensors_bytes(header, data)));
    std::vector<float> values(kCount);
    file.read_f32("a", values);
    for (size_t i = 0; i < kCount; ++i) ASSERT_EQ(values[i], static_cast<float>(i % 251)) << i;
  }
}

}  // namespace
}  // namespace litespark
