// SPDX-License-Identifier: Apache-2.0
// Text of ids that come one by one: what was handed out never changes, bytes of unfinished characters wait.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "token/tokenizer.h"

namespace litespark::token {

class StreamDecoder {
 public:
  /// `tokenizer` must outlive the decoder.
  StreamDecoder(const Tokenizer& tokenizer, bool skip_special) : tokenizer_(tokenizer), skip_special_(skip_special) {}

  /// New text after `id`, often one token's, empty while a character is unfinished.
  std::string put(int32_t id);

  /// What still waits, unfinished bytes as U+FFFD. All pieces together are decode() of all ids, unless byte tokens that
  /// were text already turn out to be part of an invalid sequence.
  std::string finish();

 private:
  std::string hand_out(std::string_view text);

  const Tokenizer& tokenizer_;
  bool skip_special_;
  std::vector<int32_t> ids_;  // the last piece's ids, which the next piece's text depends on, and those after
  size_t known_ids_ = 0;      // of ids_: their text was handed out
  std::string known_;         // text of those ids
};

}  // namespace litespark::token
