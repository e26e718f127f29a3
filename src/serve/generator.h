// SPDX-License-Identifier: Apache-2.0
// Text, token by token: a prompt into the KV cache, then one token after the other.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "model/executor.h"
#include "serve/sampler.h"

namespace litespark {

enum class StopReason : uint8_t { kLength, kEndToken, kCacheFull, kCaller };
std::string_view stop_reason_name(StopReason reason);

struct GenerateOptions {
  int64_t max_tokens = 128;
  std::vector<int32_t> end_tokens;  ///< generation ends after one of them, which is not given out
  SamplerOptions sampler;
};

class Generator {
 public:
  /// `executor` was built with ProgramOptions::generation of one sequence and holds packed weights.
  explicit Generator(Executor& executor);

  /// Calls `on_token` with each new token; it returns false to stop. Throws ConfigError for an empty prompt or one that
  /// leaves no room, DataError for ids outside the vocabulary.
  StopReason generate(std::span<const int32_t> prompt, const GenerateOptions& options,
                      const std::function<bool(int32_t)>& on_token);

  /// Logits after `tokens`, from an empty cache.
  std::vector<float> logits_after(std::span<const int32_t> tokens);

 private:
  void feed(std::span<const int32_t> tokens);
  void run(Phase phase, std::span<const int32_t> tokens);
  std::vector<float> read_logits() const;
  void check_prompt(std::span<const int32_t> prompt) const;

  Executor& executor_;
  GenerationShape shape_;
  int64_t length_ = 0;  ///< rows of the cache that are filled
};

}  // namespace litespark
