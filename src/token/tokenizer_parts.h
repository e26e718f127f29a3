// SPDX-License-Identifier: Apache-2.0
// The compiled components of a tokenizer and the facts about them that are worked out once.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "token/added_tokens.h"
#include "token/bpe_model.h"
#include "token/decoder.h"
#include "token/normalizer.h"
#include "token/pre_tokenizer.h"
#include "token/tokenizer_spec.h"
#include "token/word_cutter.h"

namespace litespark::token {

struct TokenizerParts {
  /// Throws DataError naming what is wrong in `spec`.
  explicit TokenizerParts(const TokenizerSpec& spec);

  int32_t vocabulary_size() const { return added.vocabulary_size(); }

  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  BpeModel model;
  AddedTokens added;
  Decoder decoder;
  TemplateSpec post_processor;

  std::vector<bool> special;         ///< by id
  std::vector<bool> skipped;         ///< by id: what decode leaves out if it skips special tokens
  std::vector<std::string> texts;    ///< by id: what decode works on; raw bytes for a byte-level decoder
  std::vector<bool> present;         ///< by id: holes decode to nothing
  bool guards_special = false;       ///< merges or whole words could make a special token of plain text
  std::optional<WordCutter> cutter;  ///< for models that read characters

 private:
  void list_special();
  void list_texts();
  void check_template(const std::vector<TemplatePiece>& pieces) const;
};

}  // namespace litespark::token
