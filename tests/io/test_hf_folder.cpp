// SPDX-License-Identifier: Apache-2.0
// Reading folders: the golden ones, then folders that are wrong in one respect (fault:D4, fault:D6, report:B22, B23).
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "io/hf_config.h"
#include "io/hf_folder.h"
#include "io/safetensors_writer.h"
#include "support/error_text.h"
#include "support/hf_model.h"
#include "support/temporary_folder.h"

namespace litespark {
namespace {

namespace fs = std::filesystem;
using test::golden_folder;
using test::HfModel;
using test::load_hf_model;
using test::TemporaryFolder;

/// A tensor of a folder made by hand.
struct Made {
  std::string name;
  std::vector<int64_t> shape;
  float first = 0.0f;  ///< element i is first + i
};

void write_tensors(const fs::path& path, const std::vector<Made>& tensors) {
  std::vector<SafetensorsWriter::Declaration> declared;
  for (const Made& tensor : tensors) declared.push_back({tensor.name, SafetensorsDType::kF32, tensor.shape});
  SafetensorsWriter writer(path, std::move(declared));
  for (const SafetensorsTensor& slot : writer.order()) {
    const auto made = std::find_if(tensors.begin(), tensors.end(), [&](const Made& t) { return t.name == slot.name; });
    std::vector<float> values(static_cast<size_t>(slot.num_elements()));
    for (size_t i = 0; i < values.size(); ++i) values[i] = made->first + static_cast<float>(i);
    writer.write_f32(slot.name, values);
  }
  writer.commit();
}

/// C = 12, H = 6, K = 2, D = 4 (H D is not C), F = 20, V = 10, one layer.
ModelConfig tiny_config(bool is_tied = false) {
  return {.vocab_size = 10,
          .hidden_size = 12,
          .intermediate_size = 20,
          .num_hidden_layers = 1,
          .num_attention_heads = 6,
          .num_key_value_heads = 2,
          .head_dim = 4,
          .tie_word_embeddings = is_tied};
}

std::vector<Made> tiny_tensors() {
  const std::string layer = "model.layers.0.";
  return {{"model.embed_tokens.weight", {10, 12}, 1000},
          {layer + "input_layernorm.weight", {12}, 2000},
          {layer + "self_attn.q_proj.weight", {24, 12}, 3000},
          {layer + "self_attn.k_proj.weight", {8, 12}, 4000},
          {layer + "self_attn.v_proj.weight", {8, 12}, 5000},
          {layer + "self_attn.o_proj.weight", {12, 24}, 6000},
          {layer + "post_attention_layernorm.weight", {12}, 7000},
          {layer + "mlp.gate_proj.weight", {20, 12}, 8000},
          {layer + "mlp.up_proj.weight", {20, 12}, 9000},
          {layer + "mlp.down_proj.weight", {12, 20}, 10000},
          {"model.norm.weight", {12}, 11000},
          {"lm_head.weight", {10, 12}, 12000}};
}

std::vector<Made> without(std::vector<Made> tensors, const std::string& name) {
  std::erase_if(tensors, [&](const Made& tensor) { return tensor.name == name; });
  return tensors;
}

std::vector<Made> plus(std::vector<Made> tensors, Made tensor) {
  tensors.push_back(std::move(tensor));
  return tensors;
}

/// The check's message, "" when it passes.
std::string check_message(const std::vector<Made>& tensors, const ModelConfig& config) {
  const TemporaryFolder folder;
  write_tensors(folder.path() / "model.safetensors", tensors);
  try {
    HfFolder::open(folder.path()).check(config, make_param_table(config));
  } catch (const DataError& error) {
    return error.what();
  }
  return "";
}

TEST(HfFolder, ReadsQueryKeyAndValueRowsInTheHalfSplitLayoutUnpermuted) {  // report:B23
  const TemporaryFolder folder;
  write_tensors(folder.path() / "model.safetensors", tiny_tensors());
  const ModelConfig config = tiny_config();
  const ParamTable table = make_param_table(config);
  HfFolder files = HfFolder::open(folder.path());
  files.check(config, table);
  const ParamSpec& qkv = table.params[static_cast<size_t>(*table.find(ParamRole::kQkv, 0))];
  std::vector<float> values(static_cast<size_t>(qkv.shape.num_elements()));
  files.read_parameter(qkv, values);
  for (size_t i = 0; i < values.size(); ++i) {
    const size_t q = 24 * 12;
    const size_t k = q + 8 * 12;
    const float expected = static_cast<float>(i < q ? 3000 + i : i < k ? 4000 + (i - q) : 5000 + (i - k));
    ASSERT_EQ(values[i], expected) << i;
  }
}

TEST(HfFolder, ReadsFoldersOfTheBareModelWithoutItsPrefix) {
  std::vector<Made> bare = tiny_tensors();
  for (Made& tensor : bare) {
    if (tensor.name.starts_with("model.")) tensor.name = tensor.name.substr(6);
  }
  EXPECT_EQ(check_message(bare, tiny_config()), "");
}

TEST(HfFolder, IgnoresRotaryBuffersOnly) {
  EXPECT_EQ(check_message(plus(tiny_tensors(), {"model.layers.0.self_attn.rotary_emb.inv_freq", {2}}), tiny_config()),
            "");
  EXPECT_TRUE(
      contains(check_message(plus(tiny_tensors(), {"model.layers.1.mlp.up_proj.weight", {20, 12}}), tiny_config()),
               "model.layers.1.mlp.up_proj.weight"));
  EXPECT_TRUE(
      contains(check_message(plus(tiny_tensors(), {"model.layers.0.self_attn.q_proj.bias", {24}}), tiny_config()),
               "does not account for"));
}

TEST(HfFolder, NamesEveryMissingTensor) {
  for (const Made& tensor : tiny_tensors()) {
    const std::string message = check_message(without(tiny_tensors(), tensor.name), tiny_config());
    EXPECT_TRUE(contains(message, tensor.name)) << tensor.name;
    EXPECT_TRUE(contains(message, "lacks 1 tensors")) << tensor.name;
  }
}

TEST(HfFolder, ReportsShapesWithTheNameAndBothShapes) {
  for (const Made& tensor : tiny_tensors()) {
    Made wrong = tensor;
    wrong.shape.back() += 1;
    const std::string message = check_message(plus(without(tiny_tensors(), tensor.name), wrong), tiny_config());
    EXPECT_TRUE(contains(message, tensor.name));
    EXPECT_TRUE(contains(message, "expected ["));
    wrong.shape = {1};
    for (const int64_t extent : tensor.shape) wrong.shape.push_back(extent);
    EXPECT_TRUE(contains(check_message(plus(without(tiny_tensors(), tensor.name), wrong), tiny_config()), tensor.name));
  }
  // Transposed: the same number of elements.
  const Made transposed{"model.layers.0.mlp.down_proj.weight", {20, 12}};
  EXPECT_TRUE(contains(check_message(plus(without(tiny_tensors(), transposed.name), transposed), tiny_config()),
                       "got [20, 12], expected [12, 20]"));
}

TEST(HfFolder, AcceptsATiedHeadUnderEitherNameOrBoth) {  // report:B22
  const ModelConfig tied = tiny_config(true);
  const std::vector<Made> rest = without(without(tiny_tensors(), "lm_head.weight"), "model.embed_tokens.weight");
  const Made embedding{"model.embed_tokens.weight", {10, 12}, 500};
  const Made head{"lm_head.weight", {10, 12}, 500};
  for (const std::vector<Made>& tensors :
       {plus(rest, embedding), plus(rest, head), plus(plus(rest, embedding), head)}) {
    EXPECT_EQ(check_message(tensors, tied), "");
    const TemporaryFolder folder;
    write_tensors(folder.path() / "model.safetensors", tensors);
    const ParamTable table = make_param_table(tied);
    std::vector<float> values(120);
    HfFolder files = HfFolder::open(folder.path());
    files.check(tied, table);
    files.read_parameter(table.params.front(), values);
    EXPECT_EQ(values[7], 507.0f);
  }
}

TEST(HfFolder, RefusesATiedHeadThatDiffersAndAnUntiedHeadThatIsMissing) {  // report:B22
  const std::string differs = check_message(tiny_tensors(), tiny_config(true));
  EXPECT_TRUE(contains(differs, "lm_head.weight differs from the embedding"));
  EXPECT_TRUE(contains(differs, "set tie_word_embeddings to false"));
  const std::string missing = check_message(without(tiny_tensors(), "lm_head.weight"), tiny_config());
  EXPECT_TRUE(contains(missing, "lm_head.weight"));
  EXPECT_TRUE(contains(missing, "tie_word_embeddings: true"));
  const std::string neither =
      check_message(without(without(tiny_tensors(), "lm_head.weight"), "model.embed_tokens.weight"), tiny_config(true));
  EXPECT_TRUE(contains(neither, "model.embed_tokens.weight"));
}

TEST(HfFolder, RefusesWeightsThatAreNotFloats) {
  const TemporaryFolder folder;
  std::vector<SafetensorsWriter::Declaration> declared;
  for (const Made& tensor : tiny_tensors()) declared.push_back({tensor.name, SafetensorsDType::kI8, tensor.shape});
  SafetensorsWriter writer(folder.path() / "model.safetensors", declared);
  for (const SafetensorsTensor& tensor : writer.order())
    writer.write(tensor.name, std::vector<std::byte>(static_cast<size_t>(tensor.bytes)));
  writer.commit();
  EXPECT_TRUE(contains(error_text<DataError>([&] {
                         HfFolder::open(folder.path()).check(tiny_config(), make_param_table(tiny_config()));
                       }),
                       "I8"));
}

void write_index(const TemporaryFolder& folder, const nlohmann::json& weight_map) {
  folder.write("model.safetensors.index.json", nlohmann::json{{"weight_map", weight_map}}.dump());
}

TEST(HfFolder, RefusesAnIndexThatDisagreesWithItsShards) {  // fault:D4
  const TemporaryFolder folder;
  write_tensors(folder.path() / "one.safetensors", {{"a", {2}}, {"b", {2}}});
  write_tensors(folder.path() / "two.safetensors", {{"c", {2}}});
  const auto refusal = [&](const nlohmann::json& weight_map) {
    write_index(folder, weight_map);
    return error_text<DataError>([&] { HfFolder::open(folder.path()); });
  };
  write_index(folder, {{"a", "one.safetensors"}, {"b", "one.safetensors"}, {"c", "two.safetensors"}});
  EXPECT_TRUE(HfFolder::open(folder.path()).contains("c"));
  EXPECT_TRUE(contains(refusal({{"a", "one.safetensors"}, {"b", "one.safetensors"}, {"c", "no.safetensors"}}),
                       "no.safetensors"));
  EXPECT_TRUE(
      contains(refusal({{"a", "one.safetensors"}, {"b", "two.safetensors"}, {"c", "two.safetensors"}}), "\"b\""));
  EXPECT_TRUE(
      contains(refusal({{"a", "one.safetensors"}, {"b", "one.safetensors"}, {"d", "two.safetensors"}}), "\"d\""));
  EXPECT_TRUE(contains(refusal({{"a", "one.safetensors"}, {"c", "two.safetensors"}}), "omits a tensor"));
  EXPECT_TRUE(contains(refusal({{"a", "../one.safetensors"}}), "leaves the folder"));
  EXPECT_TRUE(contains(refusal({{"a", (folder.path() / "one.safetensors").string()}}), "absolute"));
  EXPECT_TRUE(contains(refusal({{"a", "model.safetensors.index.json"}}), "not a file of the folder"));
  fs::create_directory(folder.path() / "x.safetensors");
  EXPECT_TRUE(contains(refusal({{"a", "x.safetensors"}}), "a folder"));
  write_tensors(folder.path() / "twin.safetensors", {{"a", {2}}});
  EXPECT_TRUE(contains(refusal({{"a", "one.safetensors"}, {"b", "one.safetensors"}, {"z", "twin.safetensors"}}),
                       "a second time"));
  // A cycle: the shard is a link to the index itself.
  fs::create_symlink(folder.path() / "model.safetensors.index.json", folder.path() / "loop.safetensors");
  EXPECT_TRUE(contains(refusal({{"a", "loop.safetensors"}}), "loop.safetensors"));
  fs::create_symlink(folder.path() / "self.safetensors", folder.path() / "self.safetensors");
  EXPECT_TRUE(contains(refusal({{"a", "self.safetensors"}}), "self.safetensors"));
}

TEST(HfFolder, PointsFromPickledWeightsToSafetensors) {  // fault:D6
  const TemporaryFolder folder;
  EXPECT_TRUE(contains(error_text<IoError>([&] { HfFolder::open(folder.path()); }), "holds no weights"));
  EXPECT_TRUE(contains(error_text<IoError>([&] { HfFolder::open(folder.path() / "none"); }), "is not a folder"));
  folder.write("pytorch_model.bin", "PK\x03\x04");
  EXPECT_TRUE(contains(error_text<DataError>([&] { HfFolder::open(folder.path()); }), "save them with safetensors"));
  folder.write("model.safetensors", "PK\x03\x04............");
  EXPECT_TRUE(contains(error_text<DataError>([&] { HfFolder::open(folder.path()); }), "zip archive"));
}

TEST(HfFolder, ReadsShardedAndSingleFilesOfTheSameModelAlike) {
  const HfModel sharded = load_hf_model(golden_folder("llama-old-config"));
  const TemporaryFolder folder;
  test::store_hf_model(folder.path(), sharded);
  EXPECT_TRUE(fs::exists(folder.path() / "model.safetensors"));
  test::expect_same_bits(load_hf_model(folder.path()), sharded);
}

}  // namespace
}  // namespace litespark
