// SPDX-License-Identifier: Apache-2.0
// Cutting parameters between tensor-parallel ranks: nothing is lost, nothing counted twice, sizes are equal.
#include <gtest/gtest.h>

#include <numeric>

#include "core/error.h"
#include "spec/param_cut.h"
#include "support/error_text.h"
#include "support/tape_reader.h"

namespace litespark {
namespace {

ModelConfig full_config() {
  ModelConfig config = test::small_config();
  config.has_qkv_bias = config.has_output_bias = config.has_mlp_bias = config.has_qk_norm = true;
  return config;
}

/// Everything divides; copies of key heads; a vocabulary and an F that do not divide.
std::vector<std::pair<ModelConfig, int64_t>> layouts() {
  std::vector<std::pair<ModelConfig, int64_t>> all;
  for (const int64_t ranks : {1, 2, 4}) {
    all.emplace_back(full_config(), ranks);
    all.emplace_back(full_config(), ranks);
    all.back().first.num_key_value_heads = 1;
    all.back().first.vocab_size = 131;
    all.back().first.intermediate_size = 50;
  }
  return all;
}

std::vector<float> numbered(const Shape& shape) {
  std::vector<float> values(static_cast<size_t>(shape.num_elements()));
  std::iota(values.begin(), values.end(), 1.0f);
  return values;
}

TEST(ParamCut, RanksTogetherHoldEveryElementAndJoinItBack) {
  for (const auto& [config, ranks] : layouts()) {
    const ParamTable whole = make_param_table(config);
    for (size_t p = 0; p < whole.params.size(); ++p) {
      const std::vector<float> values = numbered(whole.params[p].shape);
      std::vector<float> joined(values.size());
      for (int64_t rank = 0; rank < ranks; ++rank) {
        const ParamSpec spec = cut_param_table(whole, config, {.ranks = ranks, .rank = rank}).params[p];
        std::vector<float> stored(static_cast<size_t>(spec.shape.num_elements()), -1.0f);
        cut_values(spec, values, stored);
        join_values(spec, stored, joined);
      }
      EXPECT_EQ(joined, values) << whole.params[p].name << ", ranks: " << ranks;
    }
  }
}

TEST(ParamCut, TheNormCountsEveryElementOnceOverAllRanks) {
  for (const auto& [config, ranks] : layouts()) {
    const ParamTable whole = make_param_table(config);
    for (size_t p = 0; p < whole.params.size(); ++p) {
      const std::vector<float> values = numbered(whole.params[p].shape);
      double expected = 0;
      for (const float value : values) expected += double{value};
      double counted = 0;
      for (int64_t rank = 0; rank < ranks; ++rank) {
        const ParamSpec spec = cut_param_table(whole, config, {.ranks = ranks, .rank = rank}).params[p];
        std::vector<float> stored(static_cast<size_t>(spec.shape.num_elements()));
        cut_values(spec, values, stored);
        const auto end = spec.cut ? spec.cut->num_counted : std::ssize(stored);
        for (int64_t i = 0; i < end; ++i) counted += double{stored[static_cast<size_t>(i)]};
      }
      EXPECT_EQ(counted, expected) << whole.params[p].name << ", ranks: " << ranks;
    }
  }
}

TEST(ParamCut, EveryRankStoresTheSameSizesAndTheModelOfOneRankFitsThem) {
  for (const auto& [config, ranks] : layouts()) {
    const ParamTable whole = make_param_table(config);
    const ParamTable of_rank_config = make_param_table(cut_model(config, ranks));
    for (int64_t rank = 0; rank < ranks; ++rank) {
      const ParamTable table = cut_param_table(whole, config, {.ranks = ranks, .rank = rank});
      EXPECT_EQ(table.flat_size, of_rank_config.flat_size);
      for (size_t p = 0; p < table.params.size(); ++p) {
        EXPECT_EQ(table.params[p].shape, of_rank_config.params[p].shape) << table.params[p].name;
        EXPECT_EQ(table.params[p].flat_offset, of_rank_config.params[p].flat_offset);
      }
    }
  }
}

TEST(ParamCut, HeadsKeepTheirQueriesKeysAndValuesTogether) {
  ModelConfig config = test::small_config();
  config.num_attention_heads = 8;
  config.num_key_value_heads = 2;
  const ParamTable whole = make_param_table(config);
  const auto qkv = static_cast<size_t>(whole.find(ParamRole::kQkv, 1).value());
  // Rank 2 of 4 has query heads 4 and 5, which read key and value head 1 of 2.
  const ParamSpec spec = cut_param_table(whole, config, {.ranks = 4, .rank = 2}).params[qkv];
  const int64_t dim = config.head_dim;
  ASSERT_EQ(spec.cut->rows.size(), 3u);
  EXPECT_EQ(spec.cut->rows[0].from, 4 * dim);
  EXPECT_EQ(spec.cut->rows[0].count, 2 * dim);
  EXPECT_EQ(spec.cut->rows[1].from, (8 + 1) * dim);
  EXPECT_EQ(spec.cut->rows[2].from, (8 + 2 + 1) * dim);
  EXPECT_EQ(spec.shape[0], 4 * dim);
  EXPECT_EQ(copies_of_kv_heads(config, 4), 2);
  EXPECT_EQ(copies_of_kv_heads(config, 2), 1);
}

TEST(ParamCut, TheVocabularyIsSharedInOrderToItsEnd) {
  ModelConfig config = test::small_config();
  config.vocab_size = 150;
  int64_t next = 0;
  for (int64_t rank = 0; rank < 4; ++rank) {
    const HeldVocabulary held = held_vocabulary(config, {.ranks = 4, .rank = rank});
    EXPECT_EQ(held.first, next);
    next += held.count;
  }
  EXPECT_EQ(next, 150);
  EXPECT_EQ(held_vocabulary(config, {.ranks = 4, .rank = 3}).count, 0);  // 64 + 64 + 22
}

TEST(ParamCut, HeadsThatCannotBeSharedAreRefusedByName) {
  ModelConfig config = test::small_config();
  EXPECT_NO_THROW(require_cut(config, 4));
  EXPECT_NE(error_text<ConfigError>([&] { require_cut(config, 3); }).find("num_attention_heads = 4"),
            std::string::npos);
  config.num_attention_heads = 12;
  config.num_key_value_heads = 4;
  EXPECT_NO_THROW(require_cut(config, 12));
  EXPECT_NE(error_text<ConfigError>([&] { require_cut(config, 6); }).find("num_key_value_heads = 4"),
            std::string::npos);
}

}  // namespace
}  // namespace litespark
