// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>

#include "model/weights.h"
#include "ops/cpu/cpu_backend.h"

namespace litespark {
namespace {

ModelConfig config_of(int64_t layers) {
  return {.vocab_size = 400,
          .hidden_size = 64,
          .intermediate_size = 96,
          .num_hidden_layers = layers,
          .num_attention_heads = 2,
          .num_key_value_heads = 1,
          .head_dim = 32,
          .max_position_embeddings = 16,
          .has_qkv_bias = true};
}

Executor make_executor(Backend& backend, int64_t layers) {
  return Executor(
      make_llama_program(config_of(layers), {.batch = {.num_tokens = 16, .max_documents = 1, .max_length = 16}},
                         backend.sizes()),
      backend);
}

double standard_deviation(const std::vector<float>& values) {
  double squares = 0;
  for (const float value : values) squares += double{value} * double{value};
  return std::sqrt(squares / static_cast<double>(values.size()));
}

TEST(Weights, FollowTheInitialisationRules) {
  const auto backend = make_cpu_backend({});
  Executor executor = make_executor(*backend, 2);
  initialise_weights(executor, 3);
  const ParamTable& table = executor.program().params;
  const auto values = [&](ParamRole role, int64_t layer) { return get_parameter(executor, *table.find(role, layer)); };
  EXPECT_NEAR(standard_deviation(values(ParamRole::kEmbedding, -1)), 0.02, 0.0005);
  EXPECT_NEAR(standard_deviation(values(ParamRole::kQkv, 0)), 0.02, 0.001);
  EXPECT_NEAR(standard_deviation(values(ParamRole::kDown, 1)), 0.01, 0.0005);  // 0.02 / sqrt(2 L), L = 2
  EXPECT_NEAR(standard_deviation(values(ParamRole::kOutput, 1)), 0.01, 0.0005);
  EXPECT_EQ(values(ParamRole::kFinalNorm, -1), std::vector<float>(64, 1.0f));
  EXPECT_EQ(values(ParamRole::kQkvBias, 0), std::vector<float>(128, 0.0f));
  EXPECT_NE(values(ParamRole::kQkv, 0), values(ParamRole::kQkv, 1));
}

TEST(Weights, DependOnTheSeedAlone) {
  const auto backend = make_cpu_backend({});
  Executor a = make_executor(*backend, 2), b = make_executor(*backend, 2);
  initialise_weights(a, 3);
  initialise_weights(b, 3);
  EXPECT_EQ(get_parameter(a, 4), get_parameter(b, 4));
  initialise_weights(b, 4);
  EXPECT_NE(get_parameter(a, 0), get_parameter(b, 0));
}

TEST(Weights, ReadBackWhatWasSet) {
  const auto backend = make_cpu_backend({});
  Executor executor = make_executor(*backend, 1);
  std::vector<float> values = get_parameter(executor, 2);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  set_parameter(executor, 2, values);
  EXPECT_EQ(get_parameter(executor, 2), values);
}

}  // namespace
}  // namespace litespark
