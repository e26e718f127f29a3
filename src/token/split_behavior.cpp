// SPDX-License-Identifier: Apache-2.0
#include "token/split_behavior.h"

#include <algorithm>

namespace litespark::token {
namespace {

// A match joins the part that went before it, unless that one was a match too.
std::vector<TextRange> merge_with_previous(const std::vector<MatchedRange>& parts) {
  std::vector<TextRange> out;
  bool after_match = false;
  for (const MatchedRange& part : parts) {
    if (part.is_match && !after_match && !out.empty()) {
      out.back().end = part.range.end;
    } else {
      out.push_back(part.range);
    }
    after_match = part.is_match;
  }
  return out;
}

std::vector<TextRange> merge_with_next(const std::vector<MatchedRange>& parts) {
  std::vector<TextRange> out;
  bool before_match = false;
  for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
    if (part->is_match && !before_match && !out.empty()) {
      out.back().begin = part->range.begin;
    } else {
      out.push_back(part->range);
    }
    before_match = part->is_match;
  }
  std::reverse(out.begin(), out.end());
  return out;
}

std::vector<TextRange> join_runs(const std::vector<MatchedRange>& parts) {
  std::vector<TextRange> out;
  bool after_match = false;
  for (const MatchedRange& part : parts) {
    if (part.is_match == after_match && !out.empty()) {
      out.back().end = part.range.end;
    } else {
      out.push_back(part.range);
    }
    after_match = part.is_match;
  }
  return out;
}

}  // namespace

std::vector<MatchedRange> cover_text(std::string_view text, const std::vector<TextRange>& matches, bool invert) {
  std::vector<MatchedRange> parts;
  parts.reserve(2 * matches.size() + 1);
  size_t done = 0;
  for (const TextRange& match : matches) {
    if (match.begin != done) parts.push_back({{done, match.begin}, invert});
    parts.push_back({match, !invert});
    done = match.end;
  }
  if (done != text.size()) parts.push_back({{done, text.size()}, invert});
  return parts;
}

std::vector<TextRange> apply_behavior(SplitBehavior behavior, const std::vector<MatchedRange>& parts) {
  switch (behavior) {
    case SplitBehavior::kMergedWithPrevious: return merge_with_previous(parts);
    case SplitBehavior::kMergedWithNext: return merge_with_next(parts);
    case SplitBehavior::kContiguous: return join_runs(parts);
    case SplitBehavior::kRemoved:
    case SplitBehavior::kIsolated: break;
  }
  std::vector<TextRange> out;
  for (const MatchedRange& part : parts) {
    if (behavior == SplitBehavior::kIsolated || !part.is_match) out.push_back(part.range);
  }
  return out;
}

}  // namespace litespark::token
