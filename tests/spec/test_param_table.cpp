// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <set>

#include "spec/param_table.h"

namespace litespark {
namespace {

ModelConfig small_config() {
  return {.vocab_size = 100,
          .hidden_size = 24,
          .intermediate_size = 40,
          .num_hidden_layers = 2,
          .num_attention_heads = 6,
          .num_key_value_heads = 2,
          .head_dim = 8};
}

TEST(ParamTable, CountsParametersLikeTheArchitecture) {
  const ParamTable table = make_param_table(small_config());
  const int64_t block = 24 + (6 + 4) * 8 * 24 + 24 * 48 + 24 + 3 * 24 * 40;
  EXPECT_EQ(table.num_parameters, 2 * 100 * 24 + 24 + 2 * block);
  ModelConfig tied = small_config();
  tied.tie_word_embeddings = true;
  EXPECT_EQ(make_param_table(tied).num_parameters, 100 * 24 + 24 + 2 * block);
}

TEST(ParamTable, PartsCoverEveryStoredRowOnceAndNamesAreUnique) {
  ModelConfig config = small_config();
  config.has_qkv_bias = config.has_output_bias = config.has_mlp_bias = config.has_qk_norm = true;
  std::set<std::string> names;
  for (const ParamSpec& param : make_param_table(config).params) {
    int64_t row = 0;
    for (const ParamPart& part : param.parts) {
      EXPECT_EQ(part.first_row, row) << param.name;
      row += part.shape[0];
      EXPECT_TRUE(names.insert(part.write_name).second) << part.write_name;
      EXPECT_EQ(part.read_names.front(), part.write_name);
    }
    EXPECT_EQ(row, param.shape[0]) << param.name;
    EXPECT_EQ(param.is_decayed, param.shape.rank() >= 2) << param.name;
  }
  EXPECT_TRUE(names.contains("model.layers.1.self_attn.k_proj.bias"));
  EXPECT_TRUE(names.contains("model.layers.0.self_attn.q_norm.weight"));
}

TEST(ParamTable, FlatOffsetsRunBackwardsWithoutOverlap) {
  const ParamTable table = make_param_table(small_config());
  EXPECT_EQ(table.params.back().flat_offset, 0);
  int64_t end = 0;
  for (auto param = table.params.rbegin(); param != table.params.rend(); ++param) {
    EXPECT_EQ(param->flat_offset % kFlatAlignment, 0);
    EXPECT_GE(param->flat_offset, end);
    EXPECT_LT(param->flat_offset - end, kFlatAlignment);
    end = param->flat_offset + param->shape.num_elements();
  }
  EXPECT_LE(end, table.flat_size);
}

}  // namespace
}  // namespace litespark
