// SPDX-License-Identifier: Apache-2.0
// Added tokens are cut out of a text before anything else sees it: leftmost, longest.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "token/normalizer.h"
#include "token/token_table.h"
#include "token/tokenizer_spec.h"

namespace litespark::token {

/// A part of a text: an added token (id) or other text (kNoId).
struct TextSegment {
  size_t begin = 0;
  size_t end = 0;
  int32_t id = kNoId;
};

/// A byte trie over token contents.
class TokenMatcher {
 public:
  /// Throws DataError if two tokens have the same content or one is empty.
  void insert(std::string_view content, size_t token);

  struct Match {
    size_t token = 0;
    size_t begin = 0;
    size_t end = 0;
  };
  /// Leftmost longest match that starts at `from` or later; false if there is none.
  bool find(std::string_view text, size_t from, Match* match) const;
  bool empty() const { return nodes_.size() == 1; }

 private:
  static constexpr size_t kNoToken = SIZE_MAX;
  struct Node {
    std::vector<std::pair<uint8_t, uint32_t>> children;  // sorted by byte
    size_t token = kNoToken;
  };
  const uint32_t* child_of(const Node& node, uint8_t byte) const;

  std::vector<Node> nodes_ = std::vector<Node>(1);
  std::array<bool, 256> can_start_{};
};

class AddedTokens {
 public:
  /// Gives every token its id as the library does (the model's, else the next free one) and checks the declared ids.
  /// Throws DataError naming the token for wrong ids, duplicates and contents over 1,024 bytes.
  AddedTokens(const std::vector<AddedTokenSpec>& specs, const TokenTable& model_tokens, const Normalizer& normalizer);

  struct Split {
    bool normalized = false;     ///< which tokens: those matched in normalized text, or those matched in raw text
    bool parse_special = false;  ///< false: special tokens are text
  };
  /// Cuts `text` into `segments` (appended, in order, without gaps between texts).
  void split(std::string_view text, Split how, std::vector<TextSegment>* segments) const;
  bool has(bool normalized) const { return !(normalized ? normalized_matcher_ : raw_matcher_).empty(); }

  /// Id of the added token with this content, or kNoId.
  int32_t find(std::string_view content) const;

  const std::vector<AddedTokenSpec>& tokens() const { return tokens_; }
  /// Texts that tokens() decode to: the normalized content of those matched normalized.
  const std::vector<std::string>& decoded() const { return decoded_; }
  /// Largest id + 1 of the model and these tokens together.
  int32_t vocabulary_size() const { return vocabulary_size_; }

 private:
  std::vector<AddedTokenSpec> tokens_;
  std::vector<std::string> decoded_;
  TokenMatcher raw_matcher_;
  TokenMatcher normalized_matcher_;
  int32_t vocabulary_size_ = 0;
};

}  // namespace litespark::token
