// SPDX-License-Identifier: Apache-2.0
// The BPE model: a word's symbols are merged, lowest rank first, leftmost first, until no pair has a merge.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "token/merge_table.h"
#include "token/token_table.h"
#include "token/tokenizer_spec.h"
#include "token/word_cache.h"

namespace litespark::token {

/// Working memory of one thread.
struct BpeScratch {
  WordCache cache;
  std::vector<int32_t> symbols;
  std::vector<Merge> pairs;
  std::vector<int32_t> next;
  std::vector<int32_t> previous;
  struct Candidate {
    uint32_t rank;
    uint32_t position;
    int32_t left;
    int32_t right;
    int32_t id;
  };
  std::vector<Candidate> heap;
  std::string chars;
};

/// How the words that encode_word is given are written.
enum class WordForm {
  kBytes,  ///< raw bytes, to be read through the byte alphabet
  kChars,  ///< text whose characters are the first symbols
};

class BpeModel {
 public:
  /// Throws DataError naming the entry for duplicate texts or ids, ids far beyond the vocabulary, empty tokens in
  /// merges and merges whose parts or result are no tokens.
  explicit BpeModel(const BpeSpec& spec);

  /// Appends the ids of `word` (not empty, at most kMaxWordBytes). Throws DataError if a character needs an unknown
  /// token that the vocabulary lacks.
  void encode_word(std::string_view word, WordForm form, BpeScratch* scratch, std::vector<int32_t>* ids) const;

  /// As encode_word, but no merge and no whole-word match yields an id of `forbidden` (indexed by id).
  void encode_word_without(const std::vector<bool>& forbidden, std::string_view word, WordForm form,
                           BpeScratch* scratch, std::vector<int32_t>* ids) const;

  /// Whether text can become `id` by merges or as a whole word.
  bool is_reachable(int32_t id) const;

  /// Whether two parts of a word that no merge reaches across can be encoded apart: no character vanishes, and no
  /// merge takes a stand-in (the unknown token, a byte of a fallback), whose text is not the text of the word.
  bool has_independent_parts() const;

  /// Calls visit(text) for the text of every token that a merge makes.
  template <class Visit>
  void for_each_merged_token(Visit&& visit) const {
    for (int32_t id = 0; id < tokens_.size(); ++id) {
      if (merged_[static_cast<size_t>(id)]) visit(tokens_.text(id));
    }
  }
  bool ignores_merges() const { return ignore_merges_; }

  const TokenTable& tokens() const { return tokens_; }

 private:
  void first_symbols(std::string_view word, WordForm form, BpeScratch* scratch) const;
  void char_symbols(std::string_view chars, std::vector<int32_t>* symbols) const;
  void merge(const std::vector<bool>* forbidden, BpeScratch* scratch) const;
  void merge_short(const std::vector<bool>* forbidden, BpeScratch* scratch) const;
  void merge_long(const std::vector<bool>* forbidden, BpeScratch* scratch) const;
  Merge find_merge(int32_t left, int32_t right, const std::vector<bool>* forbidden) const;
  void encode_uncached(std::string_view word, WordForm form, const std::vector<bool>* forbidden,
                       BpeScratch* scratch) const;
  bool append_fallback(std::string_view character, std::vector<int32_t>* symbols) const;
  int32_t unknown_id() const;

  TokenTable tokens_;
  MergeTable merges_;
  std::vector<int32_t> byte_ids_;      // of the 256 byte characters, kNoId where missing
  std::vector<int32_t> char_ids_;      // of the characters below U+3000
  std::vector<int32_t> fallback_ids_;  // <0x00> ... <0xFF>
  std::vector<bool> merged_;           // ids that some merge makes
  std::optional<std::string> unk_token_;
  bool has_all_bytes_ = true;
  bool fuse_unk_ = false;
  bool byte_fallback_ = false;
  bool ignore_merges_ = false;
};

}  // namespace litespark::token
