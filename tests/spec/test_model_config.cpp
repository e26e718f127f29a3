// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "core/error.h"
#include "spec/model_config.h"

namespace litespark {
namespace {

void expect_refused(const ModelConfig& config, const std::string& field) {
  try {
    config.validate();
    FAIL() << "accepted a bad " << field;
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find(field), std::string::npos) << error.what();
  }
}

TEST(ModelConfig, RefusesImpossibleShapesByField) {  // fault:D11
  EXPECT_NO_THROW(ModelConfig{}.validate());
  expect_refused({.num_attention_heads = 0}, "num_attention_heads");
  expect_refused({.num_attention_heads = 12, .num_key_value_heads = 5}, "num_key_value_heads");
  expect_refused({.hidden_size = -1}, "hidden_size");
  expect_refused({.hidden_size = int64_t{1} << 39}, "hidden_size");
  expect_refused({.head_dim = 63}, "head_dim");
  expect_refused({.rms_norm_eps = std::nan("")}, "rms_norm_eps");
  expect_refused({.rope = {.theta = 0}}, "rope_theta");
  expect_refused({.rope = {.scaling = RopeScaling::kLlama3, .low_freq_factor = 4, .high_freq_factor = 4}},
                 "high_freq_factor");
  expect_refused({.sliding_window = 8, .layer_uses_window = {true}}, "layer_types");
}

TEST(ModelConfig, KnowsWhichLayersUseTheWindow) {
  ModelConfig config{.num_hidden_layers = 3};
  EXPECT_EQ(config.window_of_layer(0), 0);
  config.sliding_window = 16;
  EXPECT_EQ(config.window_of_layer(2), 16);
  config.layer_uses_window = {false, true, false};
  EXPECT_EQ(config.window_of_layer(0), 0);
  EXPECT_EQ(config.window_of_layer(1), 16);
}

TEST(Rope, FrequenciesFollowThetaAndScaling) {  // report:B19
  const auto plain = rope_frequencies({.theta = 10000}, 64);
  EXPECT_DOUBLE_EQ(plain[0], 1.0);
  EXPECT_NEAR(plain[16], 1e-2, 1e-15);
  EXPECT_NE(rope_frequencies({.theta = 500000}, 64)[16], plain[16]);
  const auto linear = rope_frequencies({.theta = 10000, .scaling = RopeScaling::kLinear, .factor = 4}, 64);
  for (size_t i = 0; i < plain.size(); ++i) EXPECT_DOUBLE_EQ(linear[i], plain[i] / 4);
}

TEST(Rope, Llama3ScalingKeepsShortWavesAndStretchesLongOnes) {  // report:B19
  const RopeConfig rope{.theta = 500000,
                        .scaling = RopeScaling::kLlama3,
                        .factor = 8,
                        .low_freq_factor = 1,
                        .high_freq_factor = 4,
                        .original_max_position_embeddings = 8192};
  const auto scaled = rope_frequencies(rope, 128);
  for (size_t i = 0; i < scaled.size(); ++i) {
    const double frequency = std::pow(500000.0, -static_cast<double>(i) / 64.0);
    const double wavelength = 2 * M_PI / frequency;
    if (wavelength < 2048) {
      EXPECT_DOUBLE_EQ(scaled[i], frequency);
    } else if (wavelength > 8192) {
      EXPECT_DOUBLE_EQ(scaled[i], frequency / 8);
    } else {
      EXPECT_LT(scaled[i], frequency);
      EXPECT_GT(scaled[i], frequency / 8);
    }
  }
}

TEST(Rope, TableSeparatesFarNeighbouringPositions) {  // report:B21
  const RopeConfig rope{.theta = 10000};
  const auto table = rope_table(rope, 64, 15969);
  for (const size_t position : {4095u, 4096u, 15962u, 15968u}) {
    EXPECT_NEAR(table[position * 64], std::cos(static_cast<double>(position)), 1e-7);
    EXPECT_NEAR(table[position * 64 + 32], std::sin(static_cast<double>(position)), 1e-7);
  }
}

TEST(Rope, TableIsRoundedOnceMoreWhereItIsKeptInSixteenBits) {
  const auto exact = rope_table({}, 16, 300);
  for (const RopePrecision precision : {RopePrecision::kF32, RopePrecision::kBF16, RopePrecision::kF16}) {
    const RopeConfig rope{.precision = precision};
    const std::vector<std::byte> stored = stored_rope_table(rope, 16, 300);
    ASSERT_EQ(std::ssize(stored), std::ssize(exact) * dtype_bytes(rope_table_dtype(rope)));
    for (size_t i = 0; i < exact.size(); ++i) {
      float value = 0;
      if (precision == RopePrecision::kF32) {
        std::memcpy(&value, stored.data() + 4 * i, 4);
        ASSERT_EQ(value, exact[i]);
        continue;
      }
      uint16_t word = 0;
      std::memcpy(&word, stored.data() + 2 * i, 2);
      const bool is_bf16 = precision == RopePrecision::kBF16;
      ASSERT_EQ(word, is_bf16 ? to_bf16(exact[i]).bits : to_fp16(exact[i]).bits);
    }
  }
}

}  // namespace
}  // namespace litespark
