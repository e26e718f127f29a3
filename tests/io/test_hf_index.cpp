// SPDX-License-Identifier: Apache-2.0
// fault:D4: an index that points out of its folder, at itself or at nothing is refused.
#include <gtest/gtest.h>

#include "core/error.h"
#include "io/hf_index.h"
#include "support/error_text.h"
#include "support/temporary_folder.h"

namespace litespark {
namespace {

TEST(HfIndex, ReadsShardsAndSize) {
  const HfIndex index = parse_hf_index(
      R"({"metadata": {"total_size": 24}, "weight_map": {"b": "model-00001-of-00002.safetensors", "a": "x.safetensors"}})",
      "index");
  EXPECT_EQ(index.total_size, 24);
  EXPECT_EQ(index.file_of.at("a"), "x.safetensors");
  EXPECT_EQ(parse_hf_index(hf_index_text(index), "again").file_of, index.file_of);
  EXPECT_EQ(parse_hf_index(hf_index_text(index), "again").total_size, 24);
  EXPECT_EQ(parse_hf_index(R"({"weight_map": {"a": "x.safetensors"}})", "index").total_size, -1);
  EXPECT_EQ(parse_hf_index(R"({"metadata": {"total_size": 2.4e1}, "weight_map": {"a": "x.safetensors"}})", "index")
                .total_size,
            24);
  EXPECT_EQ(parse_hf_index(R"({"metadata": {"total_size": 1e200}, "weight_map": {"a": "x.safetensors"}})", "index")
                .total_size,
            -1);
  EXPECT_EQ(read_hf_index(test::golden_folder("llama-old-config") / "model.safetensors.index.json").file_of.size(),
            21U);
}

TEST(HfIndex, RefusesShardNamesThatLeaveTheFolder) {  // fault:D4
  for (const char* const name : {"../x.safetensors", "/etc/x.safetensors", "a/../../x.safetensors", "sub/x.safetensors",
                                 "..", "", ".", "x.bin", "model.safetensors.index.json", "a\\\\..\\\\x.safetensors",
                                 "x.safetensors/", "./x.safetensors", "x\\u0000.safetensors", "file://x.safetensors"}) {
    const std::string text = R"({"weight_map": {"a": ")" + std::string(name) + "\"}}";
    EXPECT_TRUE(contains(error_text<DataError>([&] { parse_hf_index(text, "the index"); }), "[the index]")) << name;
  }
}

TEST(HfIndex, RefusesWhatIsNotAnIndex) {
  for (const char* const text : {"[]", "{}", "{\"weight_map\": []}", "{\"weight_map\": {}}",
                                 "{\"weight_map\": {\"a\": 1}}", "{\"weight_map\": {\"a\": null}}",
                                 "{\"weight_map\": {\"a\": \"x.safetensors\", \"a\": \"y.safetensors\"}}", "{"}) {
    EXPECT_THROW(parse_hf_index(text, "index"), DataError) << text;
  }
  std::string many = R"({"weight_map": {)";
  for (int i = 0; i < 10001; ++i) many += "\"" + std::to_string(i) + "\":\"" + std::to_string(i) + ".safetensors\",";
  many.back() = '}';
  EXPECT_TRUE(contains(error_text<DataError>([&] { parse_hf_index(many + "}", "index"); }), "too many shards"));
}

}  // namespace
}  // namespace litespark
