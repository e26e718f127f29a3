// SPDX-License-Identifier: Apache-2.0
#include "token/tokenizer_parts.h"

#include <utility>

#include "core/error.h"
#include "token/byte_alphabet.h"

namespace litespark::token {

TokenizerParts::TokenizerParts(const TokenizerSpec& spec)
    : normalizer(spec.normalizers),
      pre_tokenizer(spec.pre_tokenizers),
      model(spec.model),
      added(spec.added_tokens, model.tokens(), normalizer),
      decoder(spec.decoders),
      post_processor(spec.post_processor) {
  check_template(post_processor.single);
  check_template(post_processor.pair);
  if (pre_tokenizer.word_form() == WordForm::kChars) cutter.emplace(model);
  list_special();
  list_texts();
}

void TokenizerParts::check_template(const std::vector<TemplatePiece>& pieces) const {
  for (const TemplatePiece& piece : pieces) {
    for (const int32_t id : piece.ids) {
      if (id >= 0 && id < vocabulary_size()) continue;
      throw DataError("tokenizer post_processor", "adds an id that is no token", id,
                      "an id below " + std::to_string(vocabulary_size()));
    }
  }
}

void TokenizerParts::list_special() {
  special.resize(static_cast<size_t>(vocabulary_size()));
  for (const AddedTokenSpec& token : added.tokens()) {
    if (!token.special) continue;
    special[static_cast<size_t>(token.id)] = true;
    guards_special = guards_special || model.is_reachable(token.id);
  }
}

void TokenizerParts::list_texts() {
  texts.resize(special.size());
  skipped.resize(special.size());
  present.resize(special.size());
  for (int32_t id = 0; id < model.tokens().size(); ++id) {
    texts[static_cast<size_t>(id)] = std::string(model.tokens().text(id));
    present[static_cast<size_t>(id)] = model.tokens().contains(id);
  }
  for (size_t i = 0; i < added.tokens().size(); ++i) {
    const AddedTokenSpec& token = added.tokens()[i];
    const auto id = static_cast<size_t>(token.id);
    texts[id] = added.decoded()[i];
    present[id] = true;
    // The library compares what it decodes, so a special token that is normalized away is never left out.
    skipped[id] = token.special && texts[id] == token.content;
  }
  if (!decoder.is_byte_level()) return;
  for (std::string& text : texts) {
    std::string bytes;
    append_token_bytes(text, &bytes);
    text = std::move(bytes);
  }
}

}  // namespace litespark::token
