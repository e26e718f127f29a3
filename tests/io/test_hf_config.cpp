// SPDX-License-Identifier: Apache-2.0
// config.json in all its spellings (report:B19, report:B20), and what is refused with the field's name (fault:D11).
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/error.h"
#include "io/hf_config.h"
#include "support/error_text.h"
#include "support/temporary_folder.h"

namespace litespark {
namespace {

using nlohmann::json;

json small_config(const std::string& model_type = "llama") {
  return {{"model_type", model_type}, {"vocab_size", 256},         {"hidden_size", 64},
          {"intermediate_size", 172}, {"num_hidden_layers", 4},    {"num_attention_heads", 4},
          {"num_key_value_heads", 2}, {"rms_norm_eps", 1e-5},      {"max_position_embeddings", 512},
          {"rope_theta", 10000.0},    {"torch_dtype", "bfloat16"}, {"hidden_act", "silu"}};
}

/// `base` with the keys of `changes`; a key whose value is the string "absent" is taken out.
json with(json base, const json& changes) {
  for (const auto& [key, value] : changes.items()) {
    if (value == "absent") {
      base.erase(key);
    } else {
      base[key] = value;
    }
  }
  return base;
}

ModelConfig parse(const json& config) {
  return parse_hf_config(config.dump(), "config.json");
}

template <class ExpectedError>
void expect_refused(const json& config, const std::string& field, const std::string& reason) {
  const std::string message = error_text<ExpectedError>([&] { parse(config); });
  EXPECT_TRUE(contains(message, "config.json")) << config;
  EXPECT_TRUE(contains(message, field)) << config;
  EXPECT_TRUE(contains(message, reason)) << config;
}

TEST(HfConfig, ReadsTheSameModelFromBothSpellingsOfRope) {  // report:B20
  const json scaling = {
      {"factor", 8.0}, {"low_freq_factor", 1.0}, {"high_freq_factor", 4.0}, {"original_max_position_embeddings", 64}};
  const json base = with(small_config(), {{"rope_theta", "absent"}, {"torch_dtype", "absent"}});
  const std::vector<json> spellings = {
      {{"rope_theta", 5e5}, {"rope_scaling", with(scaling, {{"rope_type", "llama3"}})}, {"torch_dtype", "bfloat16"}},
      {{"rope_theta", 500000}, {"rope_scaling", with(scaling, {{"type", "llama3"}})}, {"dtype", "bfloat16"}},
      {{"rope_parameters", with(scaling, {{"rope_type", "llama3"}, {"rope_theta", 5e5}})}, {"dtype", "torch.bfloat16"}},
      {{"rope_theta", 5e5}, {"rope_parameters", with(scaling, {{"rope_type", "llama3"}})}, {"dtype", "bfloat16"}},
      {{"rope_scaling", with(scaling, {{"rope_type", "llama3"}, {"type", "llama3"}, {"rope_theta", 5e5}})},
       {"dtype", "bfloat16"}},
      {{"rope_theta", 5e5},
       {"rope_scaling", with(scaling, {{"rope_type", "llama3"}})},
       {"rope_parameters", with(scaling, {{"rope_type", "llama3"}, {"rope_theta", 5e5}})},
       {"dtype", "bfloat16"},
       {"torch_dtype", "bfloat16"}},
  };
  for (const json& spelling : spellings) {
    const ModelConfig config = parse(with(base, spelling));
    EXPECT_EQ(config.rope.theta, 500000.0) << spelling;
    EXPECT_EQ(config.rope.scaling, RopeScaling::kLlama3) << spelling;
    EXPECT_EQ(config.rope.factor, 8.0) << spelling;
    EXPECT_EQ(config.rope.low_freq_factor, 1.0) << spelling;
    EXPECT_EQ(config.rope.high_freq_factor, 4.0) << spelling;
    EXPECT_EQ(config.rope.original_max_position_embeddings, 64) << spelling;
    EXPECT_EQ(config.folder_dtype, DType::kBF16) << spelling;
    EXPECT_EQ(config, parse(with(base, spellings[0]))) << spelling;
  }
}

TEST(HfConfig, ReadsLinearScalingAndNone) {
  const ModelConfig linear = parse(with(small_config(), {{"rope_scaling", {{"type", "linear"}, {"factor", 2}}}}));
  EXPECT_EQ(linear.rope.scaling, RopeScaling::kLinear);
  EXPECT_EQ(linear.rope.factor, 2.0);
  for (const json& none : {json(nullptr), json::object(), json{{"rope_type", "default"}}}) {
    const ModelConfig config = parse(with(small_config(), {{"rope_scaling", none}, {"rope_parameters", none}}));
    EXPECT_EQ(config.rope.scaling, RopeScaling::kNone) << none;
    EXPECT_EQ(config.rope.theta, 10000.0) << none;
  }
}

TEST(HfConfig, KnowsInWhatTheAnglesOfATrainedModelWereKept) {
  EXPECT_EQ(parse(small_config()).rope.precision, RopePrecision::kF32);
  EXPECT_EQ(hf_config_json(parse(small_config()), DType::kBF16).find(kRopePrecisionKey), std::string::npos);
  for (const RopePrecision precision : {RopePrecision::kBF16, RopePrecision::kF16}) {
    ModelConfig config = parse(small_config());
    config.rope.precision = precision;
    EXPECT_EQ(parse_hf_config(hf_config_json(config, config.folder_dtype), "written").rope.precision, precision);
  }
  expect_refused<ConfigError>(with(small_config(), {{kRopePrecisionKey, "fp8"}}), kRopePrecisionKey, "fp8");
}

TEST(HfConfig, TakesTheStatedDefaultWhenNeitherSpellingHasTheta) {  // report:B20
  for (const char* const family : {"llama", "mistral", "qwen2", "qwen3"}) {
    EXPECT_EQ(parse(with(small_config(family), {{"rope_theta", "absent"}})).rope.theta, 10000.0) << family;
    EXPECT_EQ(parse(with(small_config(family), {{"rope_theta", nullptr}})).rope.theta, 10000.0) << family;
  }
}

TEST(HfConfig, RefusesRopeThatItCannotCompute) {  // report:B19
  const json llama3 = {{"rope_type", "llama3"},
                       {"factor", 8.0},
                       {"low_freq_factor", 1.0},
                       {"high_freq_factor", 4.0},
                       {"original_max_position_embeddings", 64}};
  for (const char* const type : {"yarn", "dynamic", "longrope", "su", "mrope", "proportional", ""}) {
    for (const char* const key : {"rope_scaling", "rope_parameters"}) {
      expect_refused<ConfigError>(with(small_config(), {{key, {{"rope_type", type}, {"factor", 2.0}}}}),
                                  std::string(key) + ".rope_type", "is not supported");
    }
  }
  for (const char* const field :
       {"factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"}) {
    expect_refused<ConfigError>(with(small_config(), {{"rope_scaling", with(llama3, {{field, "absent"}})}}), field,
                                "is missing");
    expect_refused<ConfigError>(with(small_config(), {{"rope_scaling", with(llama3, {{field, "8"}})}}), field,
                                "wrong type");
    expect_refused<ConfigError>(with(small_config(), {{"rope_scaling", with(llama3, {{field, 0}})}}),
                                std::string("[config.json: rope_scaling.") + field + "]", "");
  }
  expect_refused<ConfigError>(
      with(small_config(), {{"rope_scaling", llama3}, {"rope_parameters", with(llama3, {{"factor", 4.0}})}}),
      "rope_scaling", "contradicts rope_parameters");
  expect_refused<ConfigError>(with(small_config(), {{"rope_parameters", {{"rope_theta", 5e5}}}}), "rope_theta",
                              "two values");
  expect_refused<ConfigError>(
      with(small_config(), {{"rope_scaling", {{"rope_type", "linear"}, {"type", "llama3"}, {"factor", 2}}}}),
      "rope_type", "contradicts type");
  for (const json& ignored : {json{{"rope_type", "default"}, {"factor", 2.0}}, json{{"factor", 2.0}}}) {
    for (const char* const key : {"rope_scaling", "rope_parameters"}) {
      expect_refused<ConfigError>(with(small_config(), {{key, ignored}}), std::string(key) + ".factor",
                                  "has no effect with rope_type default");
    }
  }
  EXPECT_EQ(parse(with(small_config(), {{"rope_scaling", {{"rope_type", "default"}, {"factor", 1.0}}}})).rope.scaling,
            RopeScaling::kNone);
  expect_refused<ConfigError>(with(small_config(), {{"rope_parameters", {{"full_attention", llama3}}}}),
                              "full_attention", "not supported");
  expect_refused<ConfigError>(with(small_config(), {{"rope_parameters", {{"partial_rotary_factor", 0.5}}}}),
                              "partial_rotary_factor", "not supported");
  expect_refused<ConfigError>(with(small_config(), {{"partial_rotary_factor", 0.25}}), "partial_rotary_factor",
                              "not supported");
  expect_refused<ConfigError>(with(small_config(), {{"rope_scaling", "linear"}}), "rope_scaling", "wrong type");
  expect_refused<ConfigError>(with(small_config(), {{"rope_theta", "10000"}}), "rope_theta", "wrong type");
  expect_refused<ConfigError>(with(small_config(), {{"rope_theta", -1.0}}), "rope_theta", "out of range");
}

TEST(HfConfig, NamesEveryMissingSize) {  // fault:D11
  for (const char* const field :
       {"model_type", "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads"}) {
    expect_refused<ConfigError>(with(small_config(), {{field, "absent"}}), field, "is missing");
    expect_refused<ConfigError>(with(small_config(), {{field, nullptr}}), field, "is missing");
  }
}

TEST(HfConfig, NamesTheFieldOfAWrongTypeOrRange) {  // fault:D11
  for (const char* const field :
       {"vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
        "num_key_value_heads", "head_dim", "max_position_embeddings"}) {
    for (const json& wrong : {json("64"), json(64.0), json(true), json::array({64}), json::object()}) {
      expect_refused<ConfigError>(with(small_config(), {{field, wrong}}), field, "wrong type");
    }
    for (const int64_t wrong : {int64_t{0}, int64_t{-1}, int64_t{-64}, int64_t{1} << 41, INT64_MAX, INT64_MIN}) {
      const std::string message = error_text<ConfigError>([&] { parse(with(small_config(), {{field, wrong}})); });
      EXPECT_TRUE(contains(message, "config.json")) << field << " " << wrong;
    }
  }
  expect_refused<ConfigError>(with(small_config(), {{"num_key_value_heads", 3}}), "num_key_value_heads", "divide");
  expect_refused<ConfigError>(with(small_config(), {{"num_attention_heads", 3}, {"num_key_value_heads", 3}}),
                              "hidden_size", "multiple");
  expect_refused<ConfigError>(with(small_config(), {{"head_dim", 15}}), "head_dim", "even");
  expect_refused<ConfigError>(with(small_config(), {{"rms_norm_eps", 0.0}}), "rms_norm_eps", "range");
  expect_refused<ConfigError>(with(small_config(), {{"rms_norm_eps", "1e-5"}}), "rms_norm_eps", "wrong type");
  expect_refused<ConfigError>(with(small_config(), {{"initializer_range", -1.0}}), "initializer_range", "range");
  expect_refused<ConfigError>(with(small_config(), {{"tie_word_embeddings", "true"}}), "tie_word_embeddings",
                              "wrong type");
  expect_refused<ConfigError>(with(small_config(), {{"tie_word_embeddings", 1}}), "tie_word_embeddings", "wrong type");
  expect_refused<ConfigError>(with(small_config(), {{"hidden_act", "gelu"}}), "hidden_act", "not supported");
  expect_refused<ConfigError>(with(small_config(), {{"dtype", "float8_e4m3fn"}}), "dtype", "not a dtype");
  expect_refused<ConfigError>(with(small_config(), {{"dtype", {{"text", "bfloat16"}}}}), "dtype", "wrong type");
  expect_refused<ConfigError>(
      with(small_config(), {{"vocab_size", int64_t{1} << 38}, {"hidden_size", int64_t{1} << 38}}), "", "");
  expect_refused<ConfigError>(with(small_config(), {{"quantization_config", {{"bits", 4}}}}), "quantization_config",
                              "not supported");
}

TEST(HfConfig, NamesModelTypesThatItDoesNotKnow) {
  for (const char* const type : {"gpt2", "gemma2", "phi3", "Llama", "llama ", ""}) {
    expect_refused<ConfigError>(small_config(type), "model_type", "not a supported model type");
  }
  for (const char* const type : {"mixtral", "qwen2_moe", "qwen3_moe"}) {
    expect_refused<ConfigError>(small_config(type), type, "mixtures of experts are not supported yet");
  }
  expect_refused<ConfigError>(with(small_config("qwen2_5_vl"), {{"vision_config", {{"depth", 32}}}}), "qwen2_5_vl",
                              "multimodal models are not supported yet");
  expect_refused<ConfigError>(with(small_config(), {{"model_type", 7}}), "model_type", "wrong type");
}

TEST(HfConfig, RefusesKeysThatNameCodeAndIgnoresOtherUnknownOnes) {  // fault:D11, CVE-2026-4372
  expect_refused<DataError>(with(small_config(), {{"auto_map", {{"AutoModel", "modeling_x.X"}}}}), "auto_map", "code");
  expect_refused<DataError>(with(small_config(), {{"custom_pipelines", {{"x", {{"impl", "x.X"}}}}}}),
                            "custom_pipelines", "code");
  expect_refused<DataError>(with(small_config(), {{"trust_remote_code", true}}), "trust_remote_code", "code");
  expect_refused<DataError>(with(small_config(), {{"_attn_implementation_internal", "owner/kernel"}}),
                            "_attn_implementation_internal", "code");
  EXPECT_EQ(parse(with(small_config(),
                       {{"pretraining_tp", 1}, {"use_cache", true}, {"_name_or_path", "a/b"}, {"made_up", {1, 2}}})),
            parse(small_config()));
}

TEST(HfConfig, RefusesWhatIsNotAJsonObject) {
  for (const char* const text : {"", "[]", "7", "null", "{\"model_type\": \"llama\"", "{\"a\": 1, \"a\": 2}"}) {
    EXPECT_THROW(parse_hf_config(text, "config.json"), DataError) << text;
  }
  const test::TemporaryFolder folder;
  EXPECT_TRUE(contains(error_text<IoError>([&] { read_hf_config(folder.path() / "config.json"); }), "config.json"));
}

TEST(HfConfig, TakesHeadSizesExplicitNullOrAbsent) {
  EXPECT_EQ(parse(small_config()).head_dim, 16);
  EXPECT_EQ(parse(with(small_config(), {{"head_dim", nullptr}})).head_dim, 16);
  EXPECT_EQ(parse(with(small_config(), {{"head_dim", 32}})).head_dim, 32);
  EXPECT_EQ(parse(small_config("qwen3")).head_dim, 128);
  EXPECT_EQ(parse(with(small_config(), {{"num_key_value_heads", "absent"}})).num_key_value_heads, 4);
  EXPECT_EQ(parse(with(small_config("mistral"), {{"num_key_value_heads", nullptr}})).num_key_value_heads, 4);
  expect_refused<ConfigError>(with(small_config("qwen2"), {{"num_key_value_heads", "absent"}}), "num_key_value_heads",
                              "is missing");
}

TEST(HfConfig, GivesEachFamilyItsBiasesAndNorms) {
  const ModelConfig llama = parse(with(small_config(), {{"attention_bias", true}, {"mlp_bias", true}}));
  EXPECT_TRUE(llama.has_qkv_bias && llama.has_output_bias && llama.has_mlp_bias);
  const ModelConfig plain = parse(small_config());
  EXPECT_FALSE(plain.has_qkv_bias || plain.has_output_bias || plain.has_mlp_bias || plain.has_qk_norm);
  const ModelConfig qwen2 = parse(small_config("qwen2"));
  EXPECT_TRUE(qwen2.has_qkv_bias);
  EXPECT_FALSE(qwen2.has_output_bias || qwen2.has_mlp_bias || qwen2.has_qk_norm);
  const ModelConfig qwen3 = parse(with(small_config("qwen3"), {{"attention_bias", true}}));
  EXPECT_TRUE(qwen3.has_qk_norm && qwen3.has_qkv_bias && qwen3.has_output_bias);
  EXPECT_FALSE(parse(small_config("qwen3")).has_qkv_bias);
  expect_refused<ConfigError>(with(small_config("mistral"), {{"attention_bias", true}}), "attention_bias",
                              "not supported");
  expect_refused<ConfigError>(with(small_config("qwen2"), {{"mlp_bias", true}}), "mlp_bias", "not supported");
}

TEST(HfConfig, GivesEachFamilyItsWindow) {
  EXPECT_EQ(parse(with(small_config(), {{"sliding_window", 8}})).sliding_window, 0);
  EXPECT_EQ(parse(with(small_config("mistral"), {{"sliding_window", 8}})).sliding_window, 8);
  EXPECT_EQ(parse(with(small_config("mistral"), {{"sliding_window", nullptr}})).sliding_window, 0);
  EXPECT_EQ(parse(with(small_config("mistral"), {{"sliding_window", 0}})).sliding_window, 0);
  EXPECT_EQ(parse(small_config("mistral")).sliding_window, 4096);
  const json mixed = {"full_attention", "sliding_attention", "full_attention", "sliding_attention"};
  expect_refused<ConfigError>(with(small_config("mistral"), {{"sliding_window", 8}, {"layer_types", mixed}}),
                              "layer_types", "contradicts");
  for (const char* const family : {"qwen2", "qwen3"}) {
    const json base = with(small_config(family), {{"sliding_window", 8}, {"max_window_layers", 1}});
    EXPECT_EQ(parse(base).sliding_window, 0);
    EXPECT_EQ(parse(with(base, {{"use_sliding_window", false}})).sliding_window, 0);
    const ModelConfig windowed = parse(with(base, {{"use_sliding_window", true}}));
    EXPECT_EQ(windowed.sliding_window, 8);
    EXPECT_EQ(windowed.layer_uses_window, (std::vector<bool>{false, true, true, true}));
    const ModelConfig by_type = parse(with(base, {{"use_sliding_window", true}, {"layer_types", mixed}}));
    EXPECT_EQ(by_type.layer_uses_window, (std::vector<bool>{false, true, false, true}));
    EXPECT_EQ(parse(with(base, {{"use_sliding_window", true}, {"max_window_layers", "absent"}})).sliding_window, 0);
    const ModelConfig all = parse(with(base, {{"use_sliding_window", true}, {"max_window_layers", 0}}));
    EXPECT_EQ(all.sliding_window, 8);
    EXPECT_TRUE(all.layer_uses_window.empty());
    EXPECT_EQ(parse(with(base, {{"use_sliding_window", true}, {"sliding_window", nullptr}})).sliding_window, 0);
    expect_refused<ConfigError>(with(base, {{"layer_types", mixed}}), "layer_types", "use_sliding_window is false");
    expect_refused<ConfigError>(with(base, {{"use_sliding_window", true}, {"layer_types", {"full_attention"}}}),
                                "layer_types", "every layer");
    expect_refused<ConfigError>(with(base, {{"use_sliding_window", true}, {"layer_types", {"a", "b", "c", "d"}}}),
                                "layer_types", "not supported");
    expect_refused<ConfigError>(with(base, {{"use_sliding_window", true}, {"layer_types", 4}}), "layer_types",
                                "wrong type");
    expect_refused<ConfigError>(with(base, {{"use_sliding_window", true}, {"sliding_window", -8}}), "sliding_window",
                                "negative");
  }
}

TEST(HfConfig, ReadsTokenIdsAloneOrInLists) {
  const ModelConfig config =
      parse(with(small_config(), {{"bos_token_id", 1}, {"eos_token_id", {2, 7}}, {"pad_token_id", 0}}));
  EXPECT_EQ(config.bos_token_ids, std::vector<int64_t>{1});
  EXPECT_EQ(config.eos_token_ids, (std::vector<int64_t>{2, 7}));
  EXPECT_EQ(config.pad_token_id, 0);
  const ModelConfig none = parse(with(small_config(), {{"eos_token_id", nullptr}, {"pad_token_id", -1}}));
  EXPECT_TRUE(none.bos_token_ids.empty() && none.eos_token_ids.empty());
  EXPECT_EQ(none.pad_token_id, -1);
  expect_refused<ConfigError>(with(small_config(), {{"eos_token_id", 256}}), "eos_token_id", "vocabulary");
  expect_refused<ConfigError>(with(small_config(), {{"eos_token_id", {1, -2}}}), "eos_token_id", "vocabulary");
  expect_refused<ConfigError>(with(small_config(), {{"eos_token_id", "2"}}), "eos_token_id", "wrong type");
  expect_refused<ConfigError>(with(small_config(), {{"bos_token_id", json::array({json::array()})}}), "bos_token_id",
                              "wrong type");
}

TEST(HfConfig, ReadsHalfPrecisionFoldersAsFloat) {
  EXPECT_EQ(parse(with(small_config(), {{"torch_dtype", "float16"}})).folder_dtype, DType::kF32);
  EXPECT_EQ(parse(with(small_config(), {{"torch_dtype", "absent"}})).folder_dtype, DType::kF32);
  EXPECT_EQ(parse(with(small_config(), {{"dtype", "float32"}, {"torch_dtype", "absent"}})).folder_dtype, DType::kF32);
}

TEST(HfConfig, RefusesTwoSpellingsOfTheDtypeThatDisagree) {
  EXPECT_EQ(parse(with(small_config(), {{"dtype", "torch.bfloat16"}, {"torch_dtype", "bfloat16"}})).folder_dtype,
            DType::kBF16);
  expect_refused<ConfigError>(with(small_config(), {{"dtype", "float32"}, {"torch_dtype", "bfloat16"}}), "dtype",
                              "contradicts torch_dtype");
}

TEST(HfConfig, WhatAShapeCannotBeIsRefusedByTheFileAndItsKey) {
  expect_refused<ConfigError>(with(small_config(), {{"head_dim", 127}}), "[config.json: head_dim]", "must be even");
  const json scaling = {{"rope_type", "linear"}, {"factor", 1e-320}};
  for (const char* const key : {"rope_scaling", "rope_parameters"}) {
    expect_refused<ConfigError>(with(small_config(), {{key, scaling}}),
                                "[config.json: " + std::string(key) + ".factor]", "out of range");
  }
}

}  // namespace
}  // namespace litespark
