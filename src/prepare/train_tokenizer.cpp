// SPDX-License-Identifier: Apache-2.0
#include "prepare/train_tokenizer.h"

#include <algorithm>
#include <system_error>

#include "core/error.h"
#include "io/file.h"
#include "token/bpe_trainer.h"

namespace litespark {

namespace fs = std::filesystem;

void train_tokenizer(const PrepareConfig& config) {
  const fs::path folder = config.tokenizer.path;
  const fs::path file = folder / "tokenizer.json";
  std::error_code error;
  if (fs::exists(file, error)) {
    throw ConfigError("tokenizer.train_vocab_size", "there is a tokenizer already", file.string(), "a new folder",
                      "leave train_vocab_size out to use it");
  }
  token::BpeTrainOptions options{.vocabulary_size = static_cast<int32_t>(config.tokenizer.train_vocab_size),
                                 .pattern = config.tokenizer.pattern,
                                 .begin_token = config.tokenizer.prepend};
  for (const std::string& special : {config.tokenizer.prepend, config.tokenizer.append}) {
    const auto& known = options.special_tokens;
    if (!special.empty() && std::find(known.begin(), known.end(), special) == known.end()) {
      options.special_tokens.push_back(special);
    }
  }
  token::BpeTrainer trainer(std::move(options));
  int64_t num_documents = 0;
  for_each_document(config, [&](const std::string& text, bool is_held_out) {
    ++num_documents;
    if (!is_held_out) trainer.add(text);
  });
  require_held_out(config, num_documents);
  fs::create_directories(folder, error);
  if (error) throw IoError(folder.string(), "cannot be made: " + error.message());
  write_text_file(file, token::tokenizer_json(trainer.train()));
}

}  // namespace litespark
