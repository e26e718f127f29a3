// SPDX-License-Identifier: Apache-2.0
// Generation with a cache must say what the whole forward pass says.
#include <gtest/gtest.h>

#include <cmath>

#include "core/error.h"
#include "core/rng.h"
#include "model/weights.h"
#include "ops/cpu/cpu_backend.h"
#include "serve/generator.h"

namespace litespark {
namespace {

constexpr int64_t kVocab = 50;

/// Rotary positions, without and with a window, and ALiBi.
struct Kind {
  int64_t window = 0;
  Positions positions = Positions::kRope;
};

ModelConfig config_of(const Kind& kind) {
  return {.vocab_size = kVocab,
          .hidden_size = 32,
          .intermediate_size = 48,
          .num_hidden_layers = 2,
          .num_attention_heads = 4,
          .num_key_value_heads = 2,
          .head_dim = 8,
          .max_position_embeddings = 64,
          .initializer_range = 0.3,
          .positions = kind.positions,
          .sliding_window = kind.window};
}

std::vector<int32_t> some_tokens(int64_t count) {
  std::vector<int32_t> tokens(static_cast<size_t>(count));
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int32_t>(RandomStream(4, 4).below(i, kVocab));
  return tokens;
}

struct GeneratorTest : testing::TestWithParam<Kind> {
  std::unique_ptr<Backend> backend = make_cpu_backend({});
  Executor executor{make_llama_program(config_of(GetParam()),
                                       {.batch = {.num_tokens = 40, .max_documents = 1, .max_length = 40},
                                        .has_training = false,
                                        .has_logits = true,
                                        .generation = GenerationShape{.capacity = 48, .prefill_rows = 8}},
                                       backend->sizes()),
                    *backend};
  void SetUp() override { initialise_weights(executor, 3); }

  /// All logits of one forward pass over `tokens`, [tokens, V].
  std::vector<float> full_logits(std::vector<int32_t> tokens) {
    const int32_t offsets[2] = {0, static_cast<int32_t>(tokens.size())};
    const int32_t one = 1;
    tokens.resize(40, 0);
    std::vector<int32_t> positions(40);
    for (size_t i = 0; i < 40; ++i) positions[i] = static_cast<int32_t>(i);
    const BatchTensors& batch = executor.program().batch;
    executor.write(batch.ids, tokens.data(), 160);
    executor.write(batch.positions, positions.data(), 160);
    executor.write(batch.offsets, offsets, 8);
    executor.write(batch.num_documents, &one, 4);
    executor.run(Phase::kLogits);
    std::vector<float> logits(40 * kVocab);
    executor.read(executor.program().logits, logits.data(), static_cast<int64_t>(logits.size() * sizeof(float)));
    return logits;
  }
};

TEST_P(GeneratorTest, CachedLogitsEqualThoseOfTheWholePass) {
  Generator generator(executor);
  const std::vector<int32_t> tokens = some_tokens(40);
  const std::vector<float> expected = full_logits(tokens);
  for (const size_t length : {1u, 2u, 7u, 8u, 9u, 16u, 31u, 40u}) {  // below, at and past whole prefill chunks
    const std::vector<float> logits = generator.logits_after(std::span(tokens).first(length));
    for (size_t v = 0; v < kVocab; ++v) {
      ASSERT_NEAR(logits[v], expected[(length - 1) * kVocab + v],
                  2e-4 * (1 + std::abs(expected[(length - 1) * kVocab + v])))
          << length;
    }
  }
}

TEST_P(GeneratorTest, PositionsBeyondTheBatchHaveTheirAngles) {
  Executor narrow(make_llama_program(config_of(GetParam()),
                                     {.batch = {.num_tokens = 1, .max_documents = 1, .max_length = 1, .uniform = true},
                                      .has_training = false,
                                      .generation = GenerationShape{.capacity = 48, .prefill_rows = 8}},
                                     backend->sizes()),
                  *backend);
  initialise_weights(narrow, 3);
  const std::vector<int32_t> tokens = some_tokens(40);
  EXPECT_EQ(Generator(narrow).logits_after(tokens), Generator(executor).logits_after(tokens));
}

TEST_P(GeneratorTest, GreedyTextIsTheChainOfMostLikelyTokens) {
  Generator generator(executor);
  std::vector<int32_t> text = some_tokens(5), generated;
  EXPECT_EQ(generator.generate(text, {.max_tokens = 12, .sampler = {.temperature = 0}},
                               [&](int32_t token) { return generated.push_back(token), true; }),
            StopReason::kLength);
  for (const int32_t token : generated) {
    const std::vector<float> logits = full_logits(text);
    const auto row = logits.begin() + static_cast<std::ptrdiff_t>((text.size() - 1) * kVocab);
    EXPECT_EQ(std::max_element(row, row + kVocab) - row, token);
    text.push_back(token);
  }
}

TEST_P(GeneratorTest, StopsForEveryReason) {
  Generator generator(executor);
  const std::vector<int32_t> prompt = some_tokens(5);
  std::vector<int32_t> all;
  const auto keep = [&](int32_t token) { return all.push_back(token), true; };
  EXPECT_EQ(generator.generate(prompt, {.max_tokens = 1000}, keep), StopReason::kCacheFull);
  EXPECT_EQ(all.size(), 48u - 5u + 1u);
  const GenerateOptions ends{.max_tokens = 1000, .end_tokens = {all[3]}};
  all.clear();
  EXPECT_EQ(generator.generate(prompt, ends, keep), StopReason::kEndToken);
  EXPECT_LE(all.size(), 3u);
  EXPECT_EQ(generator.generate(prompt, {.max_tokens = 9}, [](int32_t) { return false; }), StopReason::kCaller);
}

TEST_P(GeneratorTest, RefusesPromptsThatCannotBeAnswered) {  // fault:E5's checks
  Generator generator(executor);
  const auto ignore = [](int32_t) { return true; };
  EXPECT_THROW(generator.generate({}, {}, ignore), ConfigError);
  EXPECT_THROW(generator.generate(some_tokens(48), {}, ignore), ConfigError);
  EXPECT_THROW(generator.generate(std::vector<int32_t>{1, 50}, {}, ignore), DataError);
  EXPECT_THROW(generator.generate(std::vector<int32_t>{-1}, {}, ignore), DataError);
}

INSTANTIATE_TEST_SUITE_P(Kinds, GeneratorTest,
                         testing::Values(Kind{}, Kind{.window = 6}, Kind{.positions = Positions::kAlibi}));

}  // namespace
}  // namespace litespark
