// SPDX-License-Identifier: Apache-2.0
#include "token/bpe_trainer.h"

#include <algorithm>
#include <queue>
#include <unordered_set>
#include <utility>

#include "core/error.h"
#include "token/byte_alphabet.h"
#include "token/unicode.h"

namespace litespark::token {
namespace {

constexpr int32_t kBytes = 256;
constexpr int32_t kMaxVocabulary = 1 << 24;

using Pair = std::pair<int32_t, int32_t>;

struct PairHash {
  size_t operator()(const Pair& pair) const {
    const uint64_t key =
        static_cast<uint64_t>(static_cast<uint32_t>(pair.first)) << 32 | static_cast<uint32_t>(pair.second);
    return (key * 0x9E3779B97F4A7C15ull) >> 7;
  }
};

struct Word {
  std::vector<int32_t> symbols;
  int64_t count = 0;
};

/// How often a pair stands in the text, and in which words it once stood.
struct PairUse {
  int64_t count = 0;
  std::vector<uint32_t> words;
};

struct Candidate {
  int64_t count;
  Pair pair;
};

struct WorseFirst {
  bool operator()(const Candidate& a, const Candidate& b) const {
    return a.count != b.count ? a.count < b.count : a.pair > b.pair;
  }
};

/// The state of one training.
class Learner {
 public:
  Learner(const BpeTrainOptions& options, const std::unordered_map<std::string, int64_t>& word_counts) {
    trained_.options = options;
    for (const std::string& token : options.special_tokens) add_token(token);
    const auto first_byte = static_cast<int32_t>(options.special_tokens.size());
    for (int byte = 0; byte < kBytes; ++byte) {
      std::string text;
      append_utf8(byte_to_char(static_cast<uint8_t>(byte)), &text);
      add_token(text);
    }
    for (const auto& [text, count] : word_counts) {
      Word word;
      word.count = count;
      for (const char c : text) word.symbols.push_back(first_byte + static_cast<uint8_t>(c));
      words_.push_back(std::move(word));
    }
    // The map's order is arbitrary; sums do not depend on it, but let the work be the same each time.
    std::sort(words_.begin(), words_.end(), [](const Word& a, const Word& b) { return a.symbols < b.symbols; });
    for (uint32_t w = 0; w < words_.size(); ++w) count_pairs(w);
    for (const auto& [pair, use] : uses_) queue_.push({use.count, pair});
  }

  TrainedBpe run() {
    const auto wanted = static_cast<size_t>(trained_.options.vocabulary_size);
    while (trained_.tokens.size() < wanted && !queue_.empty()) {
      const Candidate best = queue_.top();
      queue_.pop();
      const int64_t count = uses_[best.pair].count;
      if (count < trained_.options.min_count) continue;
      if (count != best.count) {
        queue_.push({count, best.pair});
        continue;
      }
      learn(best.pair);
    }
    return std::move(trained_);
  }

 private:
  int32_t add_token(const std::string& text) {
    const auto id = static_cast<int32_t>(trained_.tokens.size());
    const auto [place, is_new] = ids_.emplace(text, id);
    if (is_new) trained_.tokens.push_back(text);
    return place->second;
  }

  void count_pairs(uint32_t w) {
    const Word& word = words_[w];
    for (size_t i = 0; i + 1 < word.symbols.size(); ++i) {
      PairUse& use = uses_[{word.symbols[i], word.symbols[i + 1]}];
      use.count += word.count;
      if (use.words.empty() || use.words.back() != w) use.words.push_back(w);
    }
  }

  void learn(Pair pair) {
    const std::string& left = trained_.tokens[static_cast<size_t>(pair.first)];
    const std::string& right = trained_.tokens[static_cast<size_t>(pair.second)];
    const std::string joined = left + right;
    PairUse use = std::move(uses_[pair]);
    uses_.erase(pair);
    // Text must never merge into a special token.
    const auto& special = trained_.options.special_tokens;
    if (std::find(special.begin(), special.end(), joined) != special.end()) return;
    trained_.merges.emplace_back(left, right);
    const int32_t id = add_token(joined);
    changed_.clear();
    for (const uint32_t w : use.words) apply(pair, id, w);
    std::sort(changed_.begin(), changed_.end());
    changed_.erase(std::unique(changed_.begin(), changed_.end()), changed_.end());
    for (const Pair& changed : changed_) {
      const auto found = uses_.find(changed);
      if (found != uses_.end() && found->second.count > 0) queue_.push({found->second.count, changed});
    }
  }

  // Replaces the pair in one word; the neighbours' counts follow.
  void apply(Pair pair, int32_t id, uint32_t w) {
    Word& word = words_[w];
    std::vector<int32_t>& symbols = word.symbols;
    size_t kept = 0;
    for (size_t i = 0; i < symbols.size(); ++kept) {
      const bool matches = symbols[i] == pair.first && i + 1 < symbols.size() && symbols[i + 1] == pair.second;
      if (!matches) {
        symbols[kept] = symbols[i++];
        continue;
      }
      if (kept > 0) {
        change({symbols[kept - 1], pair.first}, -word.count, w);
        change({symbols[kept - 1], id}, word.count, w);
      }
      i += 2;
      if (i < symbols.size()) {
        change({pair.second, symbols[i]}, -word.count, w);
        change({id, symbols[i]}, word.count, w);
      }
      symbols[kept] = id;
    }
    symbols.resize(kept);
  }

  void change(Pair pair, int64_t by, uint32_t w) {
    const auto found = uses_.find(pair);
    if (found == uses_.end() && by < 0) return;  // the pair that is being merged: "aaa" holds it twice
    PairUse& use = found == uses_.end() ? uses_[pair] : found->second;
    use.count += by;
    if (by < 0) return;
    if (use.words.empty() || use.words.back() != w) use.words.push_back(w);
    changed_.push_back(pair);
  }

  TrainedBpe trained_;
  std::unordered_map<std::string, int32_t> ids_;
  std::vector<Word> words_;
  std::unordered_map<Pair, PairUse, PairHash> uses_;
  std::priority_queue<Candidate, std::vector<Candidate>, WorseFirst> queue_;
  std::vector<Pair> changed_;
};

}  // namespace

BpeTrainer::BpeTrainer(BpeTrainOptions options) : options_(std::move(options)) {
  const auto& special = options_.special_tokens;
  const int64_t least = kBytes + static_cast<int64_t>(special.size());
  if (options_.vocabulary_size < least || options_.vocabulary_size > kMaxVocabulary) {
    throw ConfigError("vocabulary_size", "is out of range", options_.vocabulary_size,
                      std::to_string(least) + " (bytes and special tokens) to " + std::to_string(kMaxVocabulary));
  }
  std::unordered_set<std::string> seen;
  for (const std::string& token : special) {
    if (token.empty() || !seen.insert(token).second) {
      throw ConfigError("special_tokens", "holds an empty or repeated token", token, "different texts");
    }
  }
  if (!options_.begin_token.empty() && !seen.contains(options_.begin_token)) {
    throw ConfigError("begin_token", "is no special token", options_.begin_token, "one of special_tokens");
  }
}

void BpeTrainer::add(std::string_view text) {
  std::string repaired;
  if (!is_valid_utf8(text)) {
    repaired = repair_utf8(text);
    text = repaired;
  }
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = next_word_end(options_.pattern, text, begin);
    ++word_counts_[std::string(text.substr(begin, end - begin))];
    begin = end;
  }
}

TrainedBpe BpeTrainer::train() const {
  return Learner(options_, word_counts_).run();
}

}  // namespace litespark::token
