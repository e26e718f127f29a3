// SPDX-License-Identifier: Apache-2.0
#include "token/stream_decoder.h"

#include <algorithm>
#include <span>
#include <string_view>

namespace litespark::token {
namespace {

constexpr std::string_view kReplacementChar = "\xEF\xBF\xBD";
// A character has at most four bytes, so five ids without a finished one hold an invalid sequence.
constexpr size_t kMaxWaitingIds = 5;

}  // namespace

std::string StreamDecoder::put(int32_t id) {
  if (!tokenizer_.has_text(id, skip_special_)) return {};
  ids_.push_back(id);
  const std::string text = tokenizer_.decode(ids_, skip_special_);
  const bool waits = text.ends_with(kReplacementChar) && ids_.size() - known_ids_ < kMaxWaitingIds;
  if (waits || text.size() <= known_.size()) return {};
  return hand_out(text);
}

std::string StreamDecoder::finish() {
  const std::string text = tokenizer_.decode(ids_, skip_special_);
  std::string rest = hand_out(text);
  ids_.clear();
  known_.clear();
  known_ids_ = 0;
  return rest;
}

std::string StreamDecoder::hand_out(std::string_view text) {
  const auto differs = std::mismatch(known_.begin(), known_.end(), text.begin(), text.end());
  const auto equal = static_cast<size_t>(differs.first - known_.begin());
  const size_t begin = equal == known_.size() ? equal : std::min(known_.size(), text.size());
  std::string piece(text.substr(begin));
  ids_.erase(ids_.begin(), ids_.begin() + static_cast<std::ptrdiff_t>(known_ids_));
  known_ids_ = ids_.size();
  known_ = tokenizer_.decode(ids_, skip_special_);
  return piece;
}

}  // namespace litespark::token
