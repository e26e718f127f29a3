// SPDX-License-Identifier: Apache-2.0
// `litespark generate`: a prompt, and what the model says next, as it says it.
#include <filesystem>
#include <iostream>

#include "commands.h"
#include "core/error.h"
#include "io/hf_config.h"
#include "model_folder.h"
#include "serve/generator.h"
#include "stop_request.h"
#include "token/stream_decoder.h"

namespace litespark::cli {
namespace {

class GenerateCommand final : public Command {
 public:
  CommandInfo info() const override {
    return {.name = "generate",
            .purpose = "Continues a prompt, printing each piece of text as it comes.",
            .positionals = {{.name = "MODEL", .help = "A Hugging Face folder, a checkpoint, or a run folder."}},
            .example = "litespark generate runs/5m --prompt='In the beginning' --temperature=0.8 --top_p=0.95",
            .computes = true};
  }

  void visit(Fields& fields) override {
    fields.add({.path = "prompt", .value = &prompt_, .help = "Text to continue. It never becomes a control token."});
    fields.add({.path = "max_tokens",
                .value = &options_.max_tokens,
                .help = "Tokens to generate at most.",
                .unit = "tokens",
                .range = between(1, 1 << 24)});
    fields.add({.path = "temperature",
                .value = &options_.sampler.temperature,
                .help = "0: always the most likely token.",
                .range = at_least(0)});
    fields.add({.path = "top_k",
                .value = &options_.sampler.top_k,
                .help = "Keep the k most likely tokens; 0: all.",
                .range = at_least(0)});
    fields.add({.path = "top_p",
                .value = &options_.sampler.top_p,
                .help = "Keep the smallest set of tokens of this probability.",
                .range = {.min = 0, .max = 1, .excludes_min = true}});
    fields.add({.path = "min_p",
                .value = &options_.sampler.min_p,
                .help = "Keep tokens of at least this share of the most likely one's probability.",
                .range = between(0, 1)});
    fields.add({.path = "seed", .value = &seed_, .help = "The same seed gives the same text.", .range = at_least(0)});
    fields.add({.path = "context",
                .value = &context_,
                .help = "Rows of the KV cache; 0: prompt and max_tokens, as far as the model goes.",
                .unit = "tokens",
                .range = at_least(0)});
    fields.add({.path = "parse-special",
                .value = &parse_special_,
                .help = "Let text such as <s> in the prompt become the special token."});
    model_.visit(fields);
  }

  ExitCode run(const CommandLine& line) override {
    const std::filesystem::path folder = resolve_model_folder(line.positionals.at(0));
    const ModelConfig config = read_hf_config(folder / "config.json");
    if (!std::filesystem::exists(folder / "tokenizer.json")) {
      throw DataError(folder.string(), "holds no tokenizer.json", "a model alone", "one with its tokenizer",
                      "a run saves the tokenizer that data.tokenizer names");
    }
    const token::Tokenizer tokenizer = token::Tokenizer::load(folder);
    token::check_vocabulary(tokenizer, config.vocab_size);
    const std::vector<int32_t> prompt =
        tokenizer.encode(prompt_, {.add_special = true, .parse_special = parse_special_});
    const int64_t wanted = context_ > 0 ? context_ : static_cast<int64_t>(prompt.size()) + options_.max_tokens;
    LoadedModel model(folder, model_,
                      {.batch = {.num_tokens = 1, .max_documents = 1, .max_length = 1, .uniform = true},
                       .generation = GenerationShape{.capacity = std::min(wanted, config.max_position_embeddings)}});
    options_.sampler.seed = static_cast<uint64_t>(seed_);
    for (const int64_t id : config.eos_token_ids) options_.end_tokens.push_back(static_cast<int32_t>(id));
    std::cout << prompt_ << std::flush;
    return stream(model.executor(), tokenizer, prompt);
  }

 private:
  ExitCode stream(Executor& executor, const token::Tokenizer& tokenizer, const std::vector<int32_t>& prompt) {
    const StopRequest stop(SaveSignal::kNone);
    token::StreamDecoder decoder(tokenizer, true);
    Generator generator(executor);
    const StopReason reason = generator.generate(prompt, options_, [&](int32_t token) {
      std::cout << decoder.put(token) << std::flush;
      return !StopRequest::is_made();
    });
    std::cout << decoder.finish() << std::endl;
    return reason == StopReason::kCaller ? ExitCode::kStopped : ExitCode::kDone;
  }

  std::string prompt_;
  GenerateOptions options_;
  int64_t seed_ = 1;
  int64_t context_ = 0;
  bool parse_special_ = false;
  ModelOptions model_;
};

}  // namespace

std::unique_ptr<Command> make_generate_command() {
  return std::make_unique<GenerateCommand>();
}

}  // namespace litespark::cli
