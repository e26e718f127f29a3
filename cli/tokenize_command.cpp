// SPDX-License-Identifier: Apache-2.0
// `litespark tokenize`: lines of text to lines of token ids, and back.
#include <iostream>

#include "commands.h"
#include "token/tokenize_stream.h"

namespace litespark::cli {
namespace {

class TokenizeCommand final : public Command {
 public:
  CommandInfo info() const override {
    return {.name = "tokenize",
            .purpose = "Turns lines of text into token ids and back, as the Hugging Face tokenizers library does.",
            .positionals = {{.name = "TOKENIZER_DIR", .help = "A folder with tokenizer.json, or the file itself."}},
            .example = "echo '{\"text\": \"Hello\"}' | litespark tokenize tests/golden/tokenizer-bpe-llama3 --jsonl"};
  }

  void visit(Fields& fields) override {
    fields.add({.path = "jsonl",
                .value = &options_.jsonl,
                .help = "Lines are {\"text\": ...} and {\"ids\": [...]}, not bare text and ids."});
    fields.add({.path = "no-special", .value = &options_.no_special, .help = "Add no special tokens around the text."});
    fields.add({.path = "plain-text",
                .value = &options_.plain_text,
                .help = "Text never becomes a special token; the rule for prompts and training data."});
    fields.add(
        {.path = "decode", .value = &options_.decode, .help = "Turn ids into text; those of no token are left out."});
    fields.add(
        {.path = "skip-special", .value = &options_.skip_special, .help = "Leave special tokens out of the text."});
  }

  ExitCode run(const CommandLine& line) override {
    if (options_.skip_special && !options_.decode) {
      throw ConfigError("--skip-special", "is for text", "no --decode", "--decode --skip-special");
    }
    const token::Tokenizer tokenizer = token::Tokenizer::load(line.positionals.at(0));
    std::ios::sync_with_stdio(false);
    token::tokenize_stream(tokenizer, options_, std::cin, std::cout);
    return ExitCode::kDone;
  }

 private:
  token::TokenizeOptions options_;
};

}  // namespace

std::unique_ptr<Command> make_tokenize_command() {
  return std::make_unique<TokenizeCommand>();
}

}  // namespace litespark::cli
