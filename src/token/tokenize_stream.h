// SPDX-License-Identifier: Apache-2.0
// Lines of text to lines of ids and back: what `litespark tokenize` does.
#pragma once

#include <iosfwd>

#include "token/tokenizer.h"

namespace litespark::token {

struct TokenizeOptions {
  bool jsonl = false;         ///< {"text": "..."} and {"ids": [1, 2]} a line; else the bare text and ids with spaces
  bool no_special = false;    ///< without the post-processor
  bool plain_text = false;    ///< text never becomes a special token
  bool decode = false;        ///< ids to text
  bool skip_special = false;  ///< decode leaves special tokens out
};

/// Reads `in` line by line and writes a line to `out` for each; empty JSON lines are skipped. Throws DataError with the
/// number of a line that cannot be read.
void tokenize_stream(const Tokenizer& tokenizer, const TokenizeOptions& options, std::istream& in, std::ostream& out);

}  // namespace litespark::token
