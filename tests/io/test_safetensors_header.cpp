// SPDX-License-Identifier: Apache-2.0
// fault:D2, fault:D3: headers that lie about sizes, places or names are refused, each with its reason.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/error.h"
#include "io/safetensors_header.h"
#include "support/error_text.h"

namespace litespark {
namespace {

TEST(SafetensorsHeader, ReadsTensorsInAnyOrderAndSortsThemByName) {
  const SafetensorsHeader header = parse_safetensors_header(
      R"({"b":{"dtype":"BF16","shape":[2,3],"data_offsets":[4,16]},"__metadata__":{"format":"pt","x":"y"},)"
      R"("a":{"data_offsets":[0,4],"shape":[],"dtype":"F32"},"c":{"dtype":"U8","shape":[1],"data_offsets":[16,17]}}   )",
      17, "file");
  ASSERT_EQ(header.tensors.size(), 3U);
  EXPECT_EQ(header.tensors[0].name, "a");
  EXPECT_TRUE(header.tensors[0].shape.empty());
  EXPECT_EQ(header.tensors[0].num_elements(), 1);
  EXPECT_EQ(header.tensors[1].name, "b");
  EXPECT_EQ(header.tensors[1].dtype, SafetensorsDType::kBF16);
  EXPECT_EQ(header.tensors[1].shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(header.tensors[1].begin, 4);
  EXPECT_EQ(header.tensors[1].bytes, 12);
  EXPECT_EQ(header.metadata.at("format"), "pt");
}

TEST(SafetensorsHeader, KnowsTheBytesOfEveryDtype) {
  const std::vector<std::pair<std::string, int>> sizes = {
      {"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E4M3", 1}, {"F8_E5M2", 1}, {"F8_E8M0", 1},
      {"I16", 2},  {"U16", 2}, {"F16", 2}, {"BF16", 2},    {"I32", 4},     {"U32", 4},
      {"F32", 4},  {"I64", 8}, {"U64", 8}, {"F64", 8},     {"C64", 8}};
  for (const auto& [name, bytes] : sizes) {
    const std::string size = std::to_string(3 * bytes);
    const std::string text = R"({"a":{"dtype":")" + name + R"(","shape":[3],"data_offsets":[0,)" + size + "]}}";
    const SafetensorsHeader header = parse_safetensors_header(text, 3 * bytes, "file");
    EXPECT_EQ(safetensors_dtype_name(header.tensors[0].dtype), name);
    EXPECT_EQ(safetensors_dtype_bytes(header.tensors[0].dtype), bytes);
  }
}

struct BadHeader {
  std::string text;
  int64_t data_bytes;
  std::string reason;
};

std::string tensor(const std::string& name, const std::string& dtype, const std::string& shape,
                   const std::string& offsets) {
  return "\"" + name + R"(":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}";
}

void expect_refused(const std::vector<BadHeader>& table) {
  for (const BadHeader& bad : table) {
    const std::string message =
        error_text<DataError>([&] { parse_safetensors_header(bad.text, bad.data_bytes, "some.safetensors"); });
    EXPECT_TRUE(contains(message, "[some.safetensors]")) << bad.text;
    EXPECT_TRUE(contains(message, bad.reason)) << bad.text;
    EXPECT_LT(message.size(), 1000U) << bad.text;
  }
}

TEST(SafetensorsHeader, RefusesTensorsThatDoNotTileTheData) {  // fault:D2
  expect_refused({
      {"{" + tensor("a", "F32", "[1]", "[0,4]") + "," + tensor("b", "F32", "[2]", "[2,10]") + "}", 10, "overlaps"},
      {"{" + tensor("a", "F32", "[1]", "[0,4]") + "," + tensor("b", "F32", "[1]", "[0,4]") + "}", 4, "overlaps"},
      {"{" + tensor("a", "F32", "[1]", "[0,4]") + "," + tensor("b", "F32", "[1]", "[8,12]") + "}", 12, "gap"},
      {"{" + tensor("a", "F32", "[1]", "[4,8]") + "}", 8, "gap"},
      {"{" + tensor("a", "F32", "[1]", "[0,4]") + "}", 5, "bytes after the last tensor"},
      {"{" + tensor("a", "F32", "[1]", "[0,4]") + "}", 3, "ends before its last tensor"},
      {"{" + tensor("a", "F32", "[2305843009213693951]", "[0,9223372036854775804]") + "}", 4, "ends before its last"},
      {"{}", 1, "bytes after the last tensor"},
      {R"({"__metadata__":{"a":"b"}})", 8, "bytes after the last tensor"},
      {"{" + tensor("a", "F32", "[1]", "[4,0]") + "}", 4, "data_offsets"},
      {"{" + tensor("a", "F32", "[1]", "[0]") + "}", 4, "data_offsets"},
      {"{" + tensor("a", "F32", "[1]", "[0,4,8]") + "}", 4, "data_offsets"},
  });
}

TEST(SafetensorsHeader, RefusesSizesThatDifferFromShapeTimesDtype) {  // fault:D2
  expect_refused({
      {"{" + tensor("a", "F32", "[2]", "[0,4]") + "}", 4, "shape x dtype"},
      {"{" + tensor("a", "BF16", "[2]", "[0,8]") + "}", 8, "shape x dtype"},
      {"{" + tensor("a", "F32", "[1000000]", "[0,4]") + "}", 4, "shape x dtype"},
      // 2^62 x 4 wraps to 0 in 64 bits, 2^32 x 2^32 + 1 to small numbers.
      {"{" + tensor("a", "F32", "[4611686018427387904]", "[0,0]") + "}", 0, "overflows"},
      {"{" + tensor("a", "U8", "[4294967296,4294967297]", "[0,4]") + "}", 4, "overflows"},
      {"{" + tensor("a", "F32", "[4294967296,4294967296,4]", "[0,0]") + "}", 0, "overflows"},
      {"{" + tensor("a", "F32", "[18446744073709551617]", "[0,4]") + "}", 4, "past 63 bits"},
      {"{" + tensor("a", "F32", "[-1]", "[0,4]") + "}", 4, "negative"},
      {"{" + tensor("a", "F32", "[-1,-1]", "[0,4]") + "}", 4, "negative"},
      {"{" + tensor("a", "F32", "[1.0]", "[0,4]") + "}", 4, "not allowed"},
      {"{" + tensor("a", "F32", "[\"1\"]", "[0,4]") + "}", 4, "not allowed"},
      {"{" + tensor("a", "F32", "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]", "[0,4]") + "}", 4, "too long"},
      {"{" + tensor("a", "F32", "[1]", "[-4,0]") + "}", 4, "negative"},
  });
}

TEST(SafetensorsHeader, RefusesTensorsWithoutElements) {  // fault:D2
  expect_refused({
      {"{" + tensor("a", "F32", "[0]", "[0,0]") + "}", 0, "no elements"},
      {"{" + tensor("a", "F32", "[4,0]", "[0,0]") + "," + tensor("b", "F32", "[1]", "[0,4]") + "}", 4, "no elements"},
      {"{" + tensor("b", "F32", "[1]", "[0,4]") + "," + tensor("a", "F32", "[0,4611686018427387904]", "[4,4]") + "}", 4,
       "no elements"},
  });
}

TEST(SafetensorsHeader, RefusesUnknownDtypesAndKeys) {
  expect_refused({
      {"{" + tensor("a", "F31", "[1]", "[0,4]") + "}", 4, "unknown dtype"},
      {"{" + tensor("a", "f32", "[1]", "[0,4]") + "}", 4, "unknown dtype"},
      {"{" + tensor("a", "F4", "[2]", "[0,1]") + "}", 1, "unknown dtype"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"extra":1}})", 4, "unknown key"},
      {R"({"a":{"dtype":"F32","shape":[1]}})", 4, "incomplete"},
      {R"({"a":{"shape":[1],"data_offsets":[0,4]}})", 4, "incomplete"},
      {R"({"a":{"dtype":"F32","data_offsets":[0,4]}})", 4, "incomplete"},
      {R"({"a":{"dtype":["F32"],"shape":[1],"data_offsets":[0,4]}})", 4, "not allowed"},
      {R"({"a":{"dtype":"F32","shape":1,"data_offsets":[0,4]}})", 4, "not allowed"},
      {R"({"a":{"dtype":"F32","shape":[[1]],"data_offsets":[0,4]}})", 4, "nested too deeply"},
      {R"({"a":{"dtype":null,"shape":[1],"data_offsets":[0,4]}})", 4, "not allowed"},
      {R"({"a":[1]})", 4, "not allowed"},
      {R"({"a":"F32"})", 4, "not allowed"},
      {R"({"__metadata__":{"a":1}})", 0, "not allowed"},
      {R"({"__metadata__":{"a":{"b":"c"}}})", 0, "not allowed"},
      {R"({"__metadata__":"text"})", 0, "not allowed"},
  });
}

TEST(SafetensorsHeader, RefusesDuplicateKeysEverywhere) {  // fault:D3
  const std::string a = tensor("a", "U8", "[4]", "[0,4]");
  expect_refused({
      {"{" + a + "," + tensor("a", "F32", "[1]", "[0,4]") + "}", 4, "duplicate key"},
      {"{" + a + "," + tensor("\\u0061", "F32", "[1]", "[4,8]") + "}", 8, "duplicate key"},
      {R"({"a":{"dtype":"U8","dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 4, "duplicate key"},
      {R"({"a":{"dtype":"F32","shape":[4],"shape":[1],"data_offsets":[0,4]}})", 4, "duplicate key"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,8],"data_offsets":[0,4]}})", 4, "duplicate key"},
      {R"({"__metadata__":{"a":"b","a":"c"}})", 0, "duplicate key"},
      {R"({"__metadata__":{},"__metadata__":{}})", 0, "duplicate key"},
  });
}

TEST(SafetensorsHeader, RefusesWhatIsNotAnObjectOfText) {
  expect_refused({
      {"", 0, "not a JSON object"},
      {" {}", 0, "not a JSON object"},
      {"[]", 0, "not a JSON object"},
      {"{", 0, "not valid JSON"},
      {"{}{}", 0, "not valid JSON"},
      {std::string("{}\0", 3), 0, "NUL byte"},
      {std::string("{}\0{}", 5), 0, "NUL byte"},
      {"{\"\xff\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "not valid JSON"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,{}]}})", 4, "nested too deeply"},
      {"{\"a\":" + std::string(1000000, '['), 0, "nested too deeply"},
      {"{\"__metadata__\":{\"a\":" + std::string(1000000, '{'), 0, "nested too deeply"},
  });
}

TEST(SafetensorsHeader, RefusesABloatedHeader) {  // fault:D3
  std::string many = "{";
  for (int i = 0; i < 1000000; ++i) many += tensor("t" + std::to_string(i), "U8", "[1]", "[0,1]") + ",";
  many.back() = '}';
  std::string notes = R"({"__metadata__":{)";
  for (int i = 0; i < 20000; ++i) notes += "\"" + std::to_string(i) + "\":\"\",";
  notes.back() = '}';
  notes += '}';
  expect_refused({{many, 1000000, "too many"},
                  {notes, 0, "too many metadata entries"},
                  {R"({"__metadata__":{"a":")" + std::string(9 << 20, 'x') + "\"}}", 0, "string that is too long"},
                  {"{" + std::string(10 << 20, ' ') + "}", 0, "too long"}});
}

TEST(SafetensorsHeader, WritesTextThatItReadsBack) {
  const SafetensorsHeader header{
      .tensors =
          {{.name = "a \"quoted\" \\ name", .dtype = SafetensorsDType::kBF16, .shape = {2, 3}, .begin = 0, .bytes = 12},
           {.name = "z\xc3\xa9", .dtype = SafetensorsDType::kF32, .shape = {}, .begin = 12, .bytes = 4}},
      .metadata = {{"format", "pt"}, {"line\n", "\"x\""}}};
  const std::string text = safetensors_header_text(header);
  EXPECT_EQ(text.size() % 8, 0U);
  const SafetensorsHeader again = parse_safetensors_header(text, 16, "text");
  EXPECT_EQ(again.metadata, header.metadata);
  ASSERT_EQ(again.tensors.size(), 2U);
  EXPECT_EQ(again.tensors[0].name, header.tensors[0].name);
  EXPECT_EQ(again.tensors[1].name, header.tensors[1].name);
  EXPECT_EQ(again.tensors[0].shape, header.tensors[0].shape);
  EXPECT_EQ(safetensors_header_text({}), "{}      ");
}

}  // namespace
}  // namespace litespark
