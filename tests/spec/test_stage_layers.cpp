// SPDX-License-Identifier: Apache-2.0
// Which layers and parameters a pipeline stage holds.
#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <string>
#include <utility>

#include "core/error.h"
#include "spec/stage_layers.h"
#include "support/error_text.h"
#include "support/tape_reader.h"

namespace litespark {
namespace {

std::vector<int64_t> counts(const ModelConfig& config, int64_t stages) {
  std::vector<int64_t> all;
  int64_t next = 0;
  for (const StageLayers& layers : balanced_layers(config, stages, 32)) {
    EXPECT_EQ(layers.first, next);
    EXPECT_GE(layers.count, 1);
    next = layers.end();
    all.push_back(layers.count);
  }
  EXPECT_EQ(next, config.num_hidden_layers);
  return all;
}

ModelConfig model(int64_t layers, int64_t vocab_size) {
  ModelConfig config = test::small_config();
  config.num_hidden_layers = layers;
  config.vocab_size = vocab_size;
  return config;
}

TEST(StageLayers, WithAHeadThatCostsNothingAreEqualAndLaterStagesGetWhatIsLeft) {
  EXPECT_EQ(counts(model(8, 1), 1), (std::vector<int64_t>{8}));
  EXPECT_EQ(counts(model(8, 1), 2), (std::vector<int64_t>{4, 4}));
  EXPECT_EQ(counts(model(8, 1), 4), (std::vector<int64_t>{2, 2, 2, 2}));
  EXPECT_EQ(counts(model(8, 1), 8), (std::vector<int64_t>(8, 1)));
  EXPECT_EQ(counts(model(9, 1), 4), (std::vector<int64_t>{2, 2, 3, 2}));
}

// A layer has 32 x 64 + 32 x 32 + 3 x 32 x 48 matmul parameters and 32 x 32 / 6 x 6 FLOPs of attention a token: 736 ids
// cost about as much as three layers.
TEST(StageLayers, TheHeadCountsForTheLayersThatItCosts) {
  EXPECT_EQ(counts(model(9, 736), 2), (std::vector<int64_t>{6, 3}));
  EXPECT_EQ(counts(model(9, 736), 3), (std::vector<int64_t>{4, 4, 1}));
  EXPECT_EQ(counts(model(4, 100000), 2), (std::vector<int64_t>{3, 1}));
}

TEST(StageLayers, RefuseMoreStagesThanLayersByName) {
  const std::string text = error_text<ConfigError>([] { layers_of_stage(model(3, 100), {.stages = 4}, 32); });
  EXPECT_NE(text.find("cluster.pp"), std::string::npos) << text;
  EXPECT_NE(text.find("got 4, expected at most num_hidden_layers = 3"), std::string::npos) << text;
}

TEST(StageLayers, SeveralChunksAreEveryPthPart) {
  const StagePlace second{.stages = 2, .stage = 1, .chunks = 3};
  const std::vector<StageLayers> layers = layers_of_stage(model(6, 1), second, 32);
  ASSERT_EQ(layers.size(), 3u);
  for (size_t chunk = 0; chunk < 3; ++chunk) {
    EXPECT_EQ(layers[chunk].first, static_cast<int64_t>(2 * chunk + 1));
    EXPECT_EQ(layers[chunk].count, 1);
  }
  const std::string text = error_text<ConfigError>([&] { layers_of_stage(model(5, 1), second, 32); });
  EXPECT_NE(text.find("[cluster.vpp]"), std::string::npos) << text;
}

TEST(StageLayers, HaveAsManyAsIsGivenHoweverMuchTheyCost) {
  const ModelConfig config = model(7, 100000);
  const auto ranges = [&](const StagePlace& place, const std::vector<int64_t>& given) {
    std::vector<std::pair<int64_t, int64_t>> all;
    for (const StageLayers& range : layers_of_stage(config, place, 32, given))
      all.emplace_back(range.first, range.end());
    return all;
  };
  using Ranges = std::vector<std::pair<int64_t, int64_t>>;
  EXPECT_EQ(ranges({.stages = 3, .stage = 0}, {1, 2, 4}), (Ranges{{0, 1}}));
  EXPECT_EQ(ranges({.stages = 3, .stage = 1}, {1, 2, 4}), (Ranges{{1, 3}}));
  EXPECT_EQ(ranges({.stages = 3, .stage = 2}, {1, 2, 4}), (Ranges{{3, 7}}));
  EXPECT_EQ(ranges({.stages = 2, .stage = 1, .chunks = 2}, {1, 3, 1, 2}), (Ranges{{1, 4}, {5, 7}}));
  EXPECT_EQ(ranges({}, {7}), (Ranges{{0, 7}}));
}

TEST(StageLayers, RefuseGivenLayersThatAreNotTheModelsByName) {
  const ModelConfig config = model(7, 100);
  const auto refusal = [&](int64_t stages, const std::vector<int64_t>& given) {
    return error_text<ConfigError>([&] { layers_of_stage(config, {.stages = stages}, 32, given); });
  };
  EXPECT_TRUE(contains(refusal(2, {3, 3}),
                       "[cluster.pp_layers] does not add up to the layers of the model; got [3, 3], together 6, "
                       "expected num_hidden_layers = 7"));
  EXPECT_TRUE(contains(refusal(2, {7, 0}), "[cluster.pp_layers] leaves a stage without a layer; got [7, 0]"));
  EXPECT_TRUE(contains(refusal(2, {8, -1}), "[cluster.pp_layers] leaves a stage without a layer; got [8, -1]"));
  EXPECT_TRUE(contains(refusal(2, {3, 2, 2}), "got 3 numbers, expected cluster.pp x cluster.vpp = 2 of them"));
  EXPECT_TRUE(contains(refusal(1, {3, 4}), "got 2 numbers"));
  EXPECT_TRUE(contains(refusal(2, {INT64_MAX, INT64_MAX}), "does not add up"));
}

TEST(StageLayers, EveryParameterIsHeldOnceButForATiedEmbedding) {
  for (const bool is_tied : {false, true}) {
    ModelConfig config = test::small_config();
    config.tie_word_embeddings = is_tied;
    const ParamTable whole = make_param_table(config);
    for (int64_t stages = 1; stages <= 3; ++stages) {
      std::multiset<std::string> held;
      int64_t num_parameters = 0;
      for (int64_t stage = 0; stage < stages; ++stage) {
        const StagePlace place{.stages = stages, .stage = stage};
        const std::vector<StageLayers> layers = layers_of_stage(config, place, 32);
        const ParamTable mine = stage_params(whole, place, layers, config);
        for (const ParamSpec& spec : mine.params) {
          held.insert(spec.name);
          const bool is_copy = is_tied && spec.role == ParamRole::kEmbedding && stage > 0;
          EXPECT_EQ(spec.is_counted_elsewhere, is_copy) << spec.name;
          if (!is_copy) num_parameters += spec.shape.num_elements();
          EXPECT_EQ(spec.flat_offset,
                    whole.params[static_cast<size_t>(*whole.find(spec.role, spec.layer))].flat_offset);
        }
      }
      EXPECT_EQ(num_parameters, whole.num_parameters);
      for (const ParamSpec& spec : whole.params) {
        const bool is_shared = is_tied && stages > 1 && spec.role == ParamRole::kEmbedding;
        EXPECT_EQ(held.count(spec.name), is_shared ? 2U : 1U) << spec.name;
      }
    }
  }
}

}  // namespace
}  // namespace litespark
