// SPDX-License-Identifier: Apache-2.0
// The chain of pre-tokenizers cuts a text into words. Words are handed on one by one as views: nothing is copied
// unless a step changes the text.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "token/bpe_model.h"
#include "token/tokenizer_spec.h"

namespace litespark::token {

/// Receives the words of a text in order.
class WordSink {
 public:
  WordSink() = default;
  WordSink(const WordSink&) = delete;
  WordSink& operator=(const WordSink&) = delete;
  virtual ~WordSink() = default;

  /// `word` is not empty and valid during the call.
  virtual void add(std::string_view word) = 0;
};

/// Text that steps changed, one buffer pair a step; reused from call to call.
struct PreTokenizerScratch {
  std::vector<std::string> changed;
  std::vector<std::string> mapped;
};

class PreTokenizer {
 public:
  /// Throws DataError for patterns that do not compile.
  explicit PreTokenizer(const std::vector<PreTokenizerSpec>& specs);
  ~PreTokenizer();
  PreTokenizer(PreTokenizer&&) noexcept;
  PreTokenizer& operator=(PreTokenizer&&) noexcept;

  /// kBytes if the last step is ByteLevel: words stay raw bytes, the model reads them through the byte alphabet.
  WordForm word_form() const;

  /// Cuts `text` (valid UTF-8); `is_start` says that it begins where the user's text begins.
  void run(std::string_view text, bool is_start, PreTokenizerScratch* scratch, WordSink* sink) const;

 private:
  struct Step;
  struct Run;
  std::vector<std::unique_ptr<Step>> steps_;
};

}  // namespace litespark::token
