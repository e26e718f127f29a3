// SPDX-License-Identifier: Apache-2.0
// What we write is read back as the same model, for every config that a family can express; the rest is refused.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <nlohmann/json.hpp>

#include "core/error.h"
#include "io/hf_config.h"
#include "support/error_text.h"
#include "support/temporary_folder.h"

namespace litespark {
namespace {

using nlohmann::json;

json written(const ModelConfig& config, DType dtype = DType::kF32) {
  return json::parse(hf_config_json(config, dtype));
}

TEST(HfConfigWrite, SpellsRopeAndDtypeTheWayMostReadersKnow) {  // report:B20, report:B25
  ModelConfig config;
  config.rope = {.theta = 5e5,
                 .scaling = RopeScaling::kLlama3,
                 .factor = 8,
                 .low_freq_factor = 1,
                 .high_freq_factor = 4,
                 .original_max_position_embeddings = 8192};
  const json out = written(config, DType::kBF16);
  EXPECT_EQ(out["rope_theta"], 5e5);
  EXPECT_EQ(out["rope_scaling"]["rope_type"], "llama3");
  EXPECT_EQ(out["rope_scaling"]["original_max_position_embeddings"], 8192);
  EXPECT_EQ(out["dtype"], "bfloat16");
  EXPECT_EQ(out["torch_dtype"], "bfloat16");
  EXPECT_EQ(out["architectures"], json::array({"LlamaForCausalLM"}));
  EXPECT_EQ(written(config)["dtype"], "float32");
  config.rope = {.theta = 1e4, .scaling = RopeScaling::kLinear, .factor = 2};
  EXPECT_EQ(written(config)["rope_scaling"]["type"], "linear");
  config.rope = {};
  EXPECT_TRUE(written(config)["rope_scaling"].is_null());
}

TEST(HfConfigWrite, RefusesWhatTheFamilyCannotSay) {
  const auto refuse = [](ModelConfig config, const std::string& what) {
    EXPECT_TRUE(contains(error_text<ConfigError>([&] { hf_config_json(config, DType::kF32); }), what));
  };
  refuse({.has_qkv_bias = true}, "biases");
  refuse({.has_qk_norm = true}, "norms");
  refuse({.sliding_window = 8}, "window");
  refuse({.family = ModelFamily::kMistral, .has_mlp_bias = true}, "MLP");
  refuse(
      {.family = ModelFamily::kMistral,
       .sliding_window = 8,
       .layer_uses_window = std::vector<bool>{true, false, true, true, true, true, true, true, true, true, true, true}},
      "window");
  refuse({.family = ModelFamily::kQwen2}, "biases");
  refuse({.family = ModelFamily::kQwen3}, "norms");
  refuse({.vocab_size = 0}, "vocab_size");
  EXPECT_THROW(hf_config_json({}, DType::kI32), InternalError);
}

TEST(HfConfigWrite, NamesTokenIdsInTheGenerationConfigWhenItKnowsThem) {
  EXPECT_EQ(hf_generation_config_json({}), "");
  const json out =
      json::parse(hf_generation_config_json({.bos_token_ids = {1}, .eos_token_ids = {2, 3}, .pad_token_id = 0}));
  EXPECT_EQ(out, (json{{"bos_token_id", 1}, {"eos_token_id", {2, 3}}, {"pad_token_id", 0}}));
}

TEST(HfConfigWrite, KeepsEveryGoldenConfig) {
  for (const char* const name : {"llama-gqa", "llama-tied-rope3", "llama-old-config", "mistral-window", "qwen2-bias",
                                 "qwen3-qknorm", "packed"}) {
    const ModelConfig config = read_hf_config(test::golden_folder(name) / "config.json");
    EXPECT_EQ(parse_hf_config(hf_config_json(config, config.folder_dtype), "again"), config) << name;
  }
}

ModelConfig arbitrary_config() {
  ModelConfig config;
  config.family =
      *rc::gen::element(ModelFamily::kLlama, ModelFamily::kMistral, ModelFamily::kQwen2, ModelFamily::kQwen3);
  const bool is_llama = config.family == ModelFamily::kLlama;
  const bool is_qwen3 = config.family == ModelFamily::kQwen3;
  const bool has_layer_windows = config.family == ModelFamily::kQwen2 || is_qwen3;
  config.vocab_size = *rc::gen::inRange<int64_t>(8, 300000);
  config.hidden_size = *rc::gen::inRange<int64_t>(1, 9000);
  config.intermediate_size = *rc::gen::inRange<int64_t>(1, 30000);
  config.num_hidden_layers = *rc::gen::inRange<int64_t>(1, 40);
  config.num_key_value_heads = *rc::gen::inRange<int64_t>(1, 33);
  config.num_attention_heads = config.num_key_value_heads * *rc::gen::inRange<int64_t>(1, 9);
  config.head_dim = 2 * *rc::gen::inRange<int64_t>(1, 129);
  config.max_position_embeddings = *rc::gen::inRange<int64_t>(1, 1 << 20);
  config.rms_norm_eps = *rc::gen::element(1e-5, 1e-6, 1e-8, 0.1);
  config.initializer_range = *rc::gen::element(0.02, 0.006, 0.1234567890123);
  config.rope.theta = *rc::gen::element(10000.0, 500000.0, 1e6, 12345.678901234567);
  config.rope.scaling = *rc::gen::element(RopeScaling::kNone, RopeScaling::kLinear, RopeScaling::kLlama3);
  if (config.rope.scaling != RopeScaling::kNone) config.rope.factor = *rc::gen::element(1.0, 2.0, 8.0, 32.5);
  if (config.rope.scaling == RopeScaling::kLlama3) {
    config.rope.low_freq_factor = *rc::gen::element(1.0, 0.5);
    config.rope.high_freq_factor = *rc::gen::element(4.0, 2.5);
    config.rope.original_max_position_embeddings = *rc::gen::inRange<int64_t>(1, 100000);
  }
  config.tie_word_embeddings = *rc::gen::arbitrary<bool>();
  const bool has_bias = (is_llama || is_qwen3) && *rc::gen::arbitrary<bool>();
  config.has_qkv_bias = has_bias || config.family == ModelFamily::kQwen2;
  config.has_output_bias = has_bias;
  config.has_mlp_bias = is_llama && *rc::gen::arbitrary<bool>();
  config.has_qk_norm = is_qwen3;
  if (!is_llama && *rc::gen::arbitrary<bool>()) {
    config.sliding_window = *rc::gen::inRange<int64_t>(1, 8192);
    if (has_layer_windows && config.num_hidden_layers > 1 && *rc::gen::arbitrary<bool>()) {
      for (int64_t i = 0; i < config.num_hidden_layers; ++i)
        config.layer_uses_window.push_back(*rc::gen::arbitrary<bool>());
      // One of each, so that the list says more than "all" or "none".
      config.layer_uses_window.front() = !config.layer_uses_window.back();
    }
  }
  const auto ids = rc::gen::container<std::vector<int64_t>>(rc::gen::inRange<int64_t>(0, 8));
  config.bos_token_ids = *ids;
  config.eos_token_ids = *ids;
  config.pad_token_id = *rc::gen::inRange<int64_t>(-1, 8);
  config.folder_dtype = *rc::gen::element(DType::kF32, DType::kBF16);
  return config;
}

RC_GTEST_PROP(HfConfigWrite, IsReadBackAsTheSameModel, ()) {
  const ModelConfig config = arbitrary_config();
  const ModelConfig again = parse_hf_config(hf_config_json(config, config.folder_dtype), "again");
  RC_ASSERT(again == config);
}

// No other program may take the weights for those of a model with rotary positions.
TEST(HfConfigWrite, GivesAlibiATypeOfItsOwnAndReadsItBack) {
  ModelConfig config;
  config.positions = Positions::kAlibi;
  const json document = written(config);
  EXPECT_EQ(document["model_type"], "litespark_alibi_llama");
  EXPECT_EQ(document["architectures"][0], "LitesparkAlibiForCausalLM");
  EXPECT_FALSE(document.contains("rope_theta"));
  EXPECT_FALSE(document.contains("rope_scaling"));
  EXPECT_EQ(parse_hf_config(document.dump(), "again"), config);
  config.family = ModelFamily::kMistral;
  EXPECT_THROW(hf_config_json(config, DType::kF32), ConfigError);
}

// fault:D11: one field replaced by anything; the answer is a model that satisfies validate() or an error of ours.
RC_GTEST_PROP(HfConfigWrite, EveryMutationOfAConfigIsReadOrRefused, ()) {
  json document = written(arbitrary_config());
  std::vector<std::string> keys;
  for (const auto& [key, value] : document.items()) keys.push_back(key);
  const std::string key = *rc::gen::elementOf(keys);
  const json value = *rc::gen::element<json>(
      json(nullptr), json(true), json(0), json(-1), json(1), json(INT64_MAX), json(INT64_MIN), json(1e300), json(-0.5),
      json(""), json("text"), json::array(), json::array({1}), json::array({nullptr}), json::object(),
      json{{"rope_type", "llama3"}}, json(int64_t{1} << 40), json(65536), json("llama"), json("qwen3"));
  document[key] = value;
  try {
    parse_hf_config(document.dump(), "mutated").validate();
  } catch (const ConfigError&) {
  } catch (const DataError&) {
  }
}

}  // namespace
}  // namespace litespark
