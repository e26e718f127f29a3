// SPDX-License-Identifier: Apache-2.0
// The shape keys become the model that Hugging Face would build from the same config.json.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>

#include "core/error.h"
#include "spec/run_config.h"
#include "support/error_text.h"

namespace litespark {
namespace {

RunConfig small_run() {
  RunConfig config;
  config.data.source = DataSource::kSynthetic;
  config.data.seq_len = 64;
  config.model.vocab_size = 128;
  config.model.hidden_size = 64;
  config.model.intermediate_size = 172;
  config.model.num_hidden_layers = 2;
  config.model.num_attention_heads = 4;
  return config;
}

std::string refusal(const std::function<void(RunConfig&)>& change) {
  RunConfig config = small_run();
  change(config);
  return error_text<ConfigError>([&] { config.validate(); });
}

TEST(ModelSection, MissingShapeKeysAreNamed) {
  EXPECT_TRUE(contains(refusal([](RunConfig& c) { c.model.hidden_size.reset(); }), "model.hidden_size"));
  EXPECT_TRUE(contains(refusal([](RunConfig& c) { c.model.vocab_size.reset(); }), "model.vocab_size"));
  EXPECT_TRUE(contains(refusal([](RunConfig& c) { c.model.num_hidden_layers.reset(); }), "num_hidden_layers"));
}

TEST(ModelSection, KeysOfOtherFamiliesAreRefused) {
  EXPECT_TRUE(contains(refusal([](RunConfig& c) { c.model.sliding_window = 16; }), "model.sliding_window"));
  EXPECT_TRUE(contains(refusal([](RunConfig& c) {
                         c.model.model_type = ModelFamily::kQwen2;
                         c.model.attention_bias = true;
                       }),
                       "model.attention_bias"));
  EXPECT_TRUE(contains(refusal([](RunConfig& c) {
                         c.model.model_type = ModelFamily::kMistral;
                         c.model.mlp_bias = true;
                       }),
                       "model.mlp_bias"));
}

TEST(ModelSection, UnsetShapeKeysFollowHuggingFace) {
  const ModelConfig shape = scratch_model_config(small_run());
  EXPECT_EQ(shape.num_key_value_heads, 4);
  EXPECT_EQ(shape.head_dim, 16);
  EXPECT_EQ(shape.max_position_embeddings, 64);
  EXPECT_FALSE(shape.tie_word_embeddings);
  EXPECT_FALSE(shape.has_qkv_bias);
  EXPECT_TRUE(shape.eos_token_ids.empty());
  EXPECT_EQ(shape.pad_token_id, -1);
}

TEST(ModelSection, FamiliesSetTheirFlags) {
  RunConfig config = small_run();
  config.model.model_type = ModelFamily::kQwen2;
  EXPECT_TRUE(scratch_model_config(config).has_qkv_bias);
  EXPECT_FALSE(scratch_model_config(config).has_output_bias);
  config.model.model_type = ModelFamily::kQwen3;
  EXPECT_TRUE(scratch_model_config(config).has_qk_norm);
  config.model.model_type = ModelFamily::kLlama;
  config.model.attention_bias = true;
  EXPECT_TRUE(scratch_model_config(config).has_qkv_bias);
  EXPECT_TRUE(scratch_model_config(config).has_output_bias);
  config = small_run();
  config.model.model_type = ModelFamily::kMistral;
  config.model.sliding_window = 16;
  EXPECT_EQ(scratch_model_config(config).sliding_window, 16);
}

TEST(ModelSection, RopeScalingNeedsItsNumbers) {
  RunConfig config = small_run();
  config.model.rope_scaling.rope_type = RopeScaling::kLlama3;
  EXPECT_TRUE(contains(error_text<ConfigError>([&] { config.validate(); }), "model.rope_scaling.factor"));
  config.model.rope_scaling.factor = 32.0;
  EXPECT_TRUE(contains(error_text<ConfigError>([&] { config.validate(); }), "original_max_position_embeddings"));
  config.model.rope_scaling.original_max_position_embeddings = 8192;
  const RopeConfig rope = scratch_model_config(config).rope;
  EXPECT_EQ(rope.scaling, RopeScaling::kLlama3);
  EXPECT_EQ(rope.factor, 32.0);
  EXPECT_EQ(rope.high_freq_factor, 4.0);
}

TEST(ModelSection, AlibiIsAChoiceOfLlamaAloneAndTakesNoRotaryKeys) {
  RunConfig config = small_run();
  EXPECT_EQ(scratch_model_config(config).positions, Positions::kRope);
  config.model.positions = Positions::kAlibi;
  EXPECT_EQ(scratch_model_config(config).positions, Positions::kAlibi);
  config.model.rope_theta = 5e5;
  EXPECT_TRUE(contains(error_text<ConfigError>([&] { scratch_model_config(config); }), "model.rope_theta"));
  config.model.rope_theta.reset();
  config.model.rope_scaling = {.rope_type = RopeScaling::kLinear, .factor = 2.0};
  EXPECT_TRUE(contains(error_text<ConfigError>([&] { scratch_model_config(config); }), "rope_scaling.rope_type"));
  config.model.rope_scaling = {};
  config.model.model_type = ModelFamily::kQwen3;
  EXPECT_TRUE(contains(error_text<ConfigError>([&] { scratch_model_config(config); }), "model.positions"));
}

TEST(ModelSection, BytesOfATextFileNeedNoVocabulary) {
  RunConfig config = small_run();
  config.model.vocab_size.reset();
  config.data.source = DataSource::kText;
  EXPECT_EQ(scratch_model_config(config).vocab_size, 256);
}

TEST(ModelSection, WhatAShapeCannotBeIsRefusedByTheWholeKey) {
  EXPECT_TRUE(contains(refusal([](RunConfig& c) { c.model.head_dim = 127; }), "[model.head_dim] must be even"));
  EXPECT_TRUE(contains(refusal([](RunConfig& c) { c.model.num_key_value_heads = 3; }),
                       "[model.num_key_value_heads] must divide num_attention_heads"));
  EXPECT_TRUE(contains(refusal([](RunConfig& c) { c.model.vocab_size = int64_t{1} << 31; }),
                       "[model.vocab_size] is too large"));
  EXPECT_TRUE(contains(refusal([](RunConfig& c) { c.model.max_position_embeddings = int64_t{1} << 41; }),
                       "[model.max_position_embeddings] is too large"));
  EXPECT_TRUE(contains(refusal([](RunConfig& c) { c.model.intermediate_size = int64_t{1} << 40; }),
                       "[model.hidden_size] gives a model of more than 2^40 parameters; got 64 with "
                       "model.intermediate_size = 1099511627776 and 2 layers"));
  const auto stretched = [](RunConfig& c) {
    c.model.rope_scaling = {.rope_type = RopeScaling::kLlama3, .factor = 8.0, .original_max_position_embeddings = 64};
  };
  EXPECT_TRUE(contains(refusal([&](RunConfig& c) {
                         stretched(c);
                         c.model.rope_scaling.high_freq_factor = 0.5;
                       }),
                       "[model.rope_scaling.high_freq_factor] must exceed low_freq_factor; got 0.5, expected more "
                       "than 1.0"));
  EXPECT_TRUE(contains(refusal([&](RunConfig& c) {
                         stretched(c);
                         c.model.rope_scaling.factor = 1e-320;
                       }),
                       "[model.rope_scaling.factor] out of range"));
}

TEST(ModelSection, RotaryFrequenciesStayNumbersOverTheWholeRangeOfTheirKeys) {
  RunConfig config;
  const Fields fields = Fields::of(config);
  for (const char* key : {"model.rope_theta", "model.rope_scaling.factor", "model.rope_scaling.low_freq_factor",
                          "model.rope_scaling.high_freq_factor"}) {
    for (const double value : {1e-320, 1e300}) {
      EXPECT_TRUE(contains(error_text<ConfigError>([&] { assign(*fields.find(key), value, "run.toml line 3"); }),
                           "[run.toml line 3: " + std::string(key) + "] out of range"));
    }
  }
  for (const double theta : {kLeastRope, kMostRope}) {
    for (const double factor : {kLeastRope, kMostRope}) {
      const RopeConfig rope{.theta = theta, .scaling = RopeScaling::kLinear, .factor = factor};
      for (const double frequency : rope_frequencies(rope, 1024)) EXPECT_TRUE(std::isfinite(frequency));
    }
  }
}

}  // namespace
}  // namespace litespark
