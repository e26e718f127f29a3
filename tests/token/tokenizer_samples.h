// SPDX-License-Identifier: Apache-2.0
// Small tokenizers built in place.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.h"
#include "support/error_text.h"
#include "token/byte_alphabet.h"
#include "token/tokenizer_spec.h"
#include "token/unicode.h"

namespace litespark::token {

/// A model whose ids 0 ... 255 are the bytes, followed by one token a merge.
inline BpeSpec byte_model(const std::vector<std::pair<std::string, std::string>>& merges) {
  BpeSpec spec;
  for (int byte = 0; byte < 256; ++byte) {
    std::string text;
    append_utf8(byte_to_char(static_cast<uint8_t>(byte)), &text);
    spec.vocab.emplace_back(text, byte);
  }
  for (const auto& [left, right] : merges) {
    spec.vocab.emplace_back(left + right, static_cast<int32_t>(spec.vocab.size()));
    spec.merges.emplace_back(left, right);
  }
  return spec;
}

/// GPT-2's kind with `merges`.
inline TokenizerSpec byte_tokenizer(const std::vector<std::pair<std::string, std::string>>& merges) {
  TokenizerSpec spec;
  spec.model = byte_model(merges);
  spec.pre_tokenizers.push_back({.kind = PreTokenizerSpec::Kind::kByteLevel, .add_prefix_space = false});
  spec.decoders.emplace().push_back({.kind = DecoderSpec::Kind::kByteLevel});
  return spec;
}

}  // namespace litespark::token
