// SPDX-License-Identifier: Apache-2.0
// Samples of a training run: the training backend generates with the weights of the moment, in memory that the plan
// has set aside, and leaves everything that training reads as it was.
#include <memory>
#include <utility>

#include "serve/generator.h"
#include "text_commands.h"
#include "token/stream_decoder.h"

namespace litespark::cli {
namespace {

class RunSampler {
 public:
  RunSampler(const RunConfig& config, Executor& executor)
      : executor_(executor),
        tokenizer_(token::Tokenizer::load(config.data.tokenizer)),
        prompt_text_(config.train.sample_prompt),
        prompt_(tokenizer_.encode(prompt_text_, {.add_special = true})),
        generator_(executor) {
    token::check_vocabulary(tokenizer_, executor.program().config.vocab_size);
    const int64_t capacity = executor.program().options.generation->capacity;
    if (prompt_.empty() || std::cmp_greater_equal(prompt_.size(), capacity)) {
      throw ConfigError("train.sample_prompt", "leaves nothing to say", std::to_string(prompt_.size()) + " tokens",
                        "1 to " + std::to_string(capacity - 1), "train.sample_tokens and data.seq_len set the end");
    }
    options_.max_tokens = capacity - static_cast<int64_t>(prompt_.size());
    options_.sampler = {.temperature = config.train.sample_temperature, .seed = static_cast<uint64_t>(config.seed)};
    for (const int64_t id : executor.program().config.eos_token_ids) {
      options_.end_tokens.push_back(static_cast<int32_t>(id));
    }
  }

  std::optional<TextSample> take(int64_t step, const std::function<bool()>& should_stop) {
    const StepState before = executor_.read_state();
    TextSample sample{.step = step, .prompt = prompt_text_};
    token::StreamDecoder decoder(tokenizer_, true);
    const StopReason reason = generator_.generate(prompt_, options_, [&](int32_t token) {
      sample.text += decoder.put(token);
      return !should_stop();
    });
    executor_.write_state(before);
    sample.text += decoder.finish();
    return reason == StopReason::kCaller ? std::nullopt : std::optional(std::move(sample));
  }

 private:
  Executor& executor_;
  token::Tokenizer tokenizer_;
  std::string prompt_text_;
  std::vector<int32_t> prompt_;
  Generator generator_;
  GenerateOptions options_;
};

}  // namespace

TakeSample make_sampler(const RunConfig& config, Executor& executor) {
  if (config.train.sample_every == 0) return {};
  const auto sampler = std::make_shared<RunSampler>(config, executor);
  return [sampler](int64_t step, const std::function<bool()>& should_stop) { return sampler->take(step, should_stop); };
}

}  // namespace litespark::cli
