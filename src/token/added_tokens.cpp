// SPDX-License-Identifier: Apache-2.0
#include "token/added_tokens.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "token/unicode.h"

namespace litespark::token {
namespace {

constexpr size_t kMaxContentBytes = 1024;

bool is_word_at(std::string_view text, size_t position) {
  return (char_class(decode_char(text, position).code_point) & kWord) != 0;
}

bool is_space_at(std::string_view text, size_t position) {
  return (char_class(decode_char(text, position).code_point) & kSpace) != 0;
}

// A token that must be a word of its own has no word character on either side.
bool stands_alone(std::string_view text, const TokenMatcher::Match& match) {
  const bool joins_left = match.begin > 0 && is_word_at(text, previous_char(text, match.begin));
  const bool joins_right = match.end < text.size() && is_word_at(text, match.end);
  return !joins_left && !joins_right;
}

size_t spaces_begin(std::string_view text, size_t end) {
  while (end > 0 && is_space_at(text, previous_char(text, end))) end = previous_char(text, end);
  return end;
}

size_t spaces_end(std::string_view text, size_t begin) {
  while (begin < text.size() && is_space_at(text, begin)) begin += char_length(text[begin]);
  return begin;
}

}  // namespace

const uint32_t* TokenMatcher::child_of(const Node& node, uint8_t byte) const {
  const auto child = std::lower_bound(node.children.begin(), node.children.end(), byte,
                                      [](const auto& entry, uint8_t value) { return entry.first < value; });
  return child != node.children.end() && child->first == byte ? &child->second : nullptr;
}

void TokenMatcher::insert(std::string_view content, size_t token) {
  uint32_t node = 0;
  for (const char c : content) {
    const auto byte = static_cast<uint8_t>(c);
    if (const uint32_t* child = child_of(nodes_[node], byte)) {
      node = *child;
      continue;
    }
    const auto added = static_cast<uint32_t>(nodes_.size());
    auto& children = nodes_[node].children;
    const auto place = std::lower_bound(children.begin(), children.end(), std::pair<uint8_t, uint32_t>{byte, 0});
    children.insert(place, {byte, added});
    nodes_.emplace_back();
    node = added;
  }
  if (content.empty() || nodes_[node].token != kNoToken) {
    throw DataError("tokenizer added_tokens", "two tokens match the same text, or one matches no text",
                    fmt::format("\"{}\"", content), "every content once");
  }
  nodes_[node].token = token;
  can_start_[static_cast<uint8_t>(content[0])] = true;
}

bool TokenMatcher::find(std::string_view text, size_t from, Match* match) const {
  for (size_t begin = from; begin < text.size(); ++begin) {
    if (!can_start_[static_cast<uint8_t>(text[begin])]) continue;
    size_t found = kNoToken;
    uint32_t node = 0;
    for (size_t i = begin; i < text.size(); ++i) {
      const uint32_t* child = child_of(nodes_[node], static_cast<uint8_t>(text[i]));
      if (!child) break;
      node = *child;
      if (nodes_[node].token == kNoToken) continue;
      found = nodes_[node].token;
      *match = {found, begin, i + 1};
    }
    if (found != kNoToken) return true;
  }
  return false;
}

AddedTokens::AddedTokens(const std::vector<AddedTokenSpec>& specs, const TokenTable& model_tokens,
                         const Normalizer& normalizer) {
  int32_t next = model_tokens.count();
  vocabulary_size_ = model_tokens.size();
  std::string buffer;
  for (const AddedTokenSpec& spec : specs) {
    if (spec.content.empty()) continue;
    if (spec.content.size() > kMaxContentBytes) {
      throw DataError("tokenizer added_tokens", "a content is too long", spec.content.size(), "at most 1024 bytes");
    }
    const int32_t in_model = model_tokens.find(spec.content);
    const int32_t id = in_model != kNoId ? in_model : next++;
    if (id != spec.id || (in_model == kNoId && model_tokens.contains(id))) {
      throw DataError("tokenizer added_tokens", fmt::format("\"{}\" has a wrong id", spec.content), spec.id,
                      fmt::format("{}, the id that the vocabulary or the order of the tokens gives", id));
    }
    bool keeps_start = true;
    const std::string decoded(spec.normalized ? normalizer.apply(spec.content, &buffer, &keeps_start) : spec.content);
    (spec.normalized ? normalized_matcher_ : raw_matcher_).insert(decoded, tokens_.size());
    tokens_.push_back(spec);
    decoded_.push_back(decoded);
    vocabulary_size_ = std::max(vocabulary_size_, id + 1);
  }
}

void AddedTokens::split(std::string_view text, Split how, std::vector<TextSegment>* segments) const {
  const TokenMatcher& matcher = how.normalized ? normalized_matcher_ : raw_matcher_;
  size_t done = 0;
  TokenMatcher::Match match;
  for (size_t from = 0; matcher.find(text, from, &match);) {
    from = match.end;
    const AddedTokenSpec& token = tokens_[match.token];
    if (token.special && !how.parse_special) continue;
    if (token.single_word && !stands_alone(text, match)) continue;
    if (token.lstrip) match.begin = std::max(spaces_begin(text, match.begin), done);
    if (token.rstrip) match.end = spaces_end(text, match.end);
    if (done < match.begin) segments->push_back({done, match.begin, kNoId});
    segments->push_back({match.begin, match.end, token.id});
    done = match.end;
  }
  if (done < text.size()) segments->push_back({done, text.size(), kNoId});
}

int32_t AddedTokens::find(std::string_view content) const {
  for (const AddedTokenSpec& token : tokens_) {
    if (token.content == content) return token.id;
  }
  return kNoId;
}

}  // namespace litespark::token
