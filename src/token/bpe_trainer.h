// SPDX-License-Identifier: Apache-2.0
// Trains a byte-level BPE: counts words, then merges the commonest pair of neighbours again and again (Sennrich et al.
// 2016). Deterministic: equal counts are decided by the smaller ids.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "token/known_pattern.h"

namespace litespark::token {

struct BpeTrainOptions {
  int32_t vocabulary_size = 4096;  ///< special tokens, 256 bytes and merges together
  KnownPattern pattern = KnownPattern::kLlama3;
  std::vector<std::string> special_tokens = {};  ///< ids 0, 1, ...; text that spells one is trained on as text
  std::string begin_token = {};  ///< the special token that the post-processor puts before a text; empty: none
  int64_t min_count = 2;         ///< a pair that is seen less often is not merged
};

/// Tokens in the order of their ids, written in the byte alphabet, and merges in the order of their ranks.
struct TrainedBpe {
  BpeTrainOptions options;
  std::vector<std::string> tokens;
  std::vector<std::pair<std::string, std::string>> merges;
};

class BpeTrainer {
 public:
  /// Throws ConfigError for a vocabulary without room for the bytes and special tokens, for empty or equal special
  /// tokens and an unknown begin token.
  explicit BpeTrainer(BpeTrainOptions options);

  /// Counts the words of a text; bytes that are no UTF-8 count as U+FFFD.
  void add(std::string_view text);

  /// Learns the merges. The vocabulary is smaller than asked for if the text has no more pairs to merge.
  TrainedBpe train() const;

 private:
  BpeTrainOptions options_;
  std::unordered_map<std::string, int64_t> word_counts_;
};

/// The tokenizer.json of `trained`: loads here and in the tokenizers library, with equal ids.
std::string tokenizer_json(const TrainedBpe& trained);

}  // namespace litespark::token
