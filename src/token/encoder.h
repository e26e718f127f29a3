// SPDX-License-Identifier: Apache-2.0
// The path of one text: added tokens cut out, the rest normalized, cut into words, words into ids.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "token/tokenizer_parts.h"

namespace litespark::token {

/// Working memory of one call.
struct EncodeScratch {
  BpeScratch bpe;
  PreTokenizerScratch pre_tokenizer;
  std::vector<TextSegment> raw_segments;
  std::vector<TextSegment> segments;
  std::string normalized;
};

/// Scratch waits here between calls: the cache of words survives, and no two threads share one.
class ScratchPool {
 public:
  std::unique_ptr<EncodeScratch> take();
  void give_back(std::unique_ptr<EncodeScratch> scratch);

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<EncodeScratch>> free_;
};

/// Appends the ids of `text` (valid UTF-8), without the post-processor. `parse_special` lets text become special
/// tokens.
void encode_text(const TokenizerParts& parts, std::string_view text, bool parse_special, EncodeScratch* scratch,
                 std::vector<int32_t>* ids);

}  // namespace litespark::token
