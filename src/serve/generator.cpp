// SPDX-License-Identifier: Apache-2.0
#include "serve/generator.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "core/error.h"

namespace litespark {

std::string_view stop_reason_name(StopReason reason) {
  switch (reason) {
    case StopReason::kLength: return "length";
    case StopReason::kEndToken: return "end token";
    case StopReason::kCacheFull: return "context full";
    case StopReason::kCaller: return "stopped";
  }
  throw InternalError("stop_reason_name", "unknown reason", static_cast<int>(reason), "a StopReason");
}

Generator::Generator(Executor& executor) : executor_(executor) {
  const std::optional<GenerationShape>& shape = executor.program().options.generation;
  if (!shape || shape->sequences != 1) {
    throw InternalError("generate", "the program has no generation phases for one sequence");
  }
  shape_ = *shape;
}

void Generator::check_prompt(std::span<const int32_t> prompt) const {
  if (prompt.empty()) throw ConfigError("prompt", "is empty after tokenisation", 0, "at least one token");
  if (std::cmp_greater_equal(prompt.size(), shape_.capacity)) {
    throw ConfigError("prompt", "leaves no room for an answer", std::to_string(prompt.size()) + " tokens",
                      "fewer than the context of " + std::to_string(shape_.capacity));
  }
  const int64_t vocab = executor_.program().config.vocab_size;
  for (const int32_t id : prompt) {
    if (id < 0 || id >= vocab) {
      throw DataError("prompt", "token id outside the model's vocabulary", id, "0 to " + std::to_string(vocab - 1));
    }
  }
}

void Generator::run(Phase phase, std::span<const int32_t> tokens) {
  const GenerationTensors& tensors = executor_.program().generation;
  const bool is_prefill = phase == Phase::kPrefill;
  std::vector<int32_t> positions(tokens.size());
  for (size_t i = 0; i < tokens.size(); ++i) positions[i] = static_cast<int32_t>(length_ + static_cast<int64_t>(i));
  const auto past = static_cast<int32_t>(length_);
  const auto bytes = static_cast<int64_t>(tokens.size_bytes());
  executor_.write(is_prefill ? tensors.prefill_ids : tensors.decode_ids, tokens.data(), bytes);
  executor_.write(is_prefill ? tensors.prefill_positions : tensors.decode_positions, positions.data(), bytes);
  executor_.write(tensors.past_lengths, &past, sizeof(past));
  executor_.run(phase);
  length_ += static_cast<int64_t>(tokens.size());
}

void Generator::feed(std::span<const int32_t> tokens) {
  const auto rows = static_cast<size_t>(shape_.prefill_rows);
  while (tokens.size() >= rows) {
    run(Phase::kPrefill, tokens.first(rows));
    tokens = tokens.subspan(rows);
  }
  for (const int32_t& token : tokens) run(Phase::kDecode, std::span(&token, 1));
}

std::vector<float> Generator::read_logits() const {
  const TensorId id = executor_.program().generation.logits;
  const TensorInfo& info = executor_.program().tensors[id];
  std::vector<float> logits(static_cast<size_t>(info.shape.num_elements()));
  if (info.dtype == DType::kF32) {
    executor_.read(id, logits.data(), info.bytes());
    return logits;
  }
  std::vector<bf16> narrow(logits.size());
  executor_.read(id, narrow.data(), info.bytes());
  std::transform(narrow.begin(), narrow.end(), logits.begin(), [](bf16 value) { return to_float(value); });
  return logits;
}

std::vector<float> Generator::logits_after(std::span<const int32_t> tokens) {
  check_prompt(tokens);
  length_ = 0;
  feed(tokens);
  return read_logits();
}

StopReason Generator::generate(std::span<const int32_t> prompt, const GenerateOptions& options,
                               const std::function<bool(int32_t)>& on_token) {
  Sampler sampler(options.sampler);
  std::vector<float> logits = logits_after(prompt);
  for (int64_t count = 0; count < options.max_tokens; ++count) {
    const int32_t token = sampler.sample(logits, static_cast<uint64_t>(count));
    if (std::find(options.end_tokens.begin(), options.end_tokens.end(), token) != options.end_tokens.end()) {
      return StopReason::kEndToken;
    }
    if (!on_token(token)) return StopReason::kCaller;
    if (length_ >= shape_.capacity) return StopReason::kCacheFull;
    run(Phase::kDecode, std::span(&token, 1));
    logits = read_logits();
  }
  return StopReason::kLength;
}

}  // namespace litespark
