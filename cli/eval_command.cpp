// SPDX-License-Identifier: Apache-2.0
// `litespark eval`: the loss on prepared data, in nats, as perplexity and in bits per byte of text.
#include <cmath>
#include <iostream>

#include "commands.h"
#include "core/json_text.h"
#include "core/text_table.h"
#include "data/shard_source.h"
#include "io/hf_config.h"
#include "model_folder.h"
#include "spec/run_program.h"
#include "train/trainer.h"
#include "training_inputs.h"

namespace litespark::cli {
namespace {

class EvalCommand final : public Command {
 public:
  CommandInfo info() const override {
    return {.name = "eval",
            .purpose =
                "Measures a model's loss on shards: every document, token-weighted; also in bits per byte of all "
                "the text, of which the first token of a piece costs none.",
            .positionals = {{.name = "MODEL", .help = "A Hugging Face folder, a checkpoint, or a run folder."},
                            {.name = "DATA", .help = "A folder of shards made by litespark prepare."}},
            .example = "litespark eval runs/5m data/eval --json",
            .computes = true};
  }

  void visit(Fields& fields) override {
    fields.add({.path = "json", .value = &json_, .help = "Print one JSON object."});
    fields.add({.path = "seq_len",
                .value = &seq_len_,
                .help = "Longest piece of a document that is seen at once; 0: the model's positions, at most 2048.",
                .unit = "tokens",
                .range = at_least(0)});
    fields.add(
        {.path = "micro_batch", .value = &micro_batch_, .help = "Sequences at a time.", .range = between(1, 65536)});
    model_.visit(fields);
  }

  ExitCode run(const CommandLine& line) override {
    const std::filesystem::path folder = resolve_model_folder(line.positionals.at(0));
    const ModelConfig config = read_hf_config(folder / "config.json");
    ShardSet shards = ShardSet::open(line.positionals.at(1));
    shards.verify();
    if (shards.description().vocab_size > config.vocab_size) {
      throw ConfigError("DATA", "its tokenizer has more ids than the model's vocabulary",
                        shards.description().vocab_size, "at most " + std::to_string(config.vocab_size));
    }
    require_tokenizer(shards, folder, "DATA");
    const int64_t length = std::min(config.max_position_embeddings, seq_len_ > 0 ? seq_len_ : kDefaultLength);
    const BatchShape shape = packed_batch(micro_batch_, length);
    LoadedModel model(folder, model_, {.batch = shape});
    const double text_bytes = static_cast<double>(shards.description().text_bytes);
    const ShardSource source(std::move(shards), {.shape = shape, .is_shuffled = false});
    const EvalResult result = evaluate_all(model.executor(), source);
    if (!std::isfinite(result.loss)) {
      throw NumericError("eval", "the loss is not finite", result.loss, "a finite loss", "look at the model's weights");
    }
    print(result, text_bytes);
    return ExitCode::kDone;
  }

 private:
  static constexpr int64_t kDefaultLength = 2048;

  void print(const EvalResult& result, double text_bytes) const {
    const double tokens = static_cast<double>(result.supervised_tokens);
    const double bits_per_byte = result.loss * tokens / std::log(2.0) / text_bytes;
    if (json_) {
      std::cout << "{\"loss\": " << json_number(result.loss) << ", \"tokens\": " << result.supervised_tokens
                << ", \"perplexity\": " << json_number(std::exp(result.loss))
                << ", \"bits_per_byte\": " << json_number(bits_per_byte)
                << ", \"text_bytes\": " << static_cast<int64_t>(text_bytes) << "}\n";
      return;
    }
    std::cout << "loss " << fixed_text(result.loss, 4) << " nats over " << count_text(result.supervised_tokens)
              << " tokens, perplexity " << fixed_text(std::exp(result.loss), 2) << ", " << fixed_text(bits_per_byte, 3)
              << " bits per byte of text\n";
  }

  bool json_ = false;
  int64_t seq_len_ = 0;
  int64_t micro_batch_ = 4;
  ModelOptions model_;
};

}  // namespace

std::unique_ptr<Command> make_eval_command() {
  return std::make_unique<EvalCommand>();
}

}  // namespace litespark::cli
