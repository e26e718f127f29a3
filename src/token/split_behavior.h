// SPDX-License-Identifier: Apache-2.0
// What happens to the delimiters that a pattern finds in a text.
#pragma once

#include <string_view>
#include <vector>

#include "token/regex.h"
#include "token/tokenizer_spec.h"

namespace litespark::token {

/// A part of a text: a match of the pattern or the text between two matches.
struct MatchedRange {
  TextRange range;
  bool is_match = false;
};

/// Parts of `text`, in order and without gaps, from `matches` (in order); `invert` exchanges the two kinds.
std::vector<MatchedRange> cover_text(std::string_view text, const std::vector<TextRange>& matches, bool invert);

/// Joins and drops `parts` as `behavior` says.
std::vector<TextRange> apply_behavior(SplitBehavior behavior, const std::vector<MatchedRange>& parts);

}  // namespace litespark::token
