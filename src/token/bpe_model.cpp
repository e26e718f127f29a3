// SPDX-License-Identifier: Apache-2.0
// Loading and the way from a word to its first symbols; bpe_merge.cpp holds the merging.
#include "token/bpe_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "core/error.h"
#include "token/byte_alphabet.h"
#include "token/unicode.h"

namespace litespark::token {
namespace {

constexpr char32_t kDirectChars = 0x3000;
constexpr int64_t kIdSlack = 1024;
constexpr size_t kMaxWordBytes = size_t{64} << 20;

int32_t table_size(const BpeSpec& spec) {
  int32_t largest = -1;
  const int64_t limit = 2 * static_cast<int64_t>(spec.vocab.size()) + kIdSlack;
  for (const auto& [text, id] : spec.vocab) {
    if (id < 0 || id >= limit) {
      throw DataError("tokenizer vocab", fmt::format("token \"{}\" has an id out of range", text), id,
                      fmt::format("0 to {} for {} tokens", limit - 1, spec.vocab.size()));
    }
    largest = std::max(largest, id);
  }
  return largest + 1;
}

}  // namespace

BpeModel::BpeModel(const BpeSpec& spec)
    : tokens_(table_size(spec), spec.vocab.size()),
      merges_(spec.merges.size()),
      byte_ids_(256),
      char_ids_(kDirectChars),
      fallback_ids_(256),
      merged_(static_cast<size_t>(tokens_.size())),
      unk_token_(spec.unk_token),
      fuse_unk_(spec.fuse_unk),
      byte_fallback_(spec.byte_fallback),
      ignore_merges_(spec.ignore_merges) {
  for (const auto& [text, id] : spec.vocab) {
    if (tokens_.insert(text, id)) continue;
    throw DataError("tokenizer vocab", fmt::format("token \"{}\" is a duplicate", text),
                    fmt::format("id {} of \"{}\"", id, tokens_.text(id)), "every text and every id once");
  }
  std::string joined;
  for (size_t rank = 0; rank < spec.merges.size(); ++rank) {
    const auto& [left, right] = spec.merges[rank];
    joined.assign(left).append(right);
    const int32_t left_id = tokens_.find(left);
    const int32_t right_id = tokens_.find(right);
    const int32_t id = tokens_.find(joined);
    if (left.empty() || right.empty() || left_id == kNoId || right_id == kNoId || id == kNoId) {
      throw DataError("tokenizer merges", fmt::format("merge {} names a text that is no token", rank),
                      fmt::format("\"{}\" + \"{}\"", left, right), "two tokens whose joined text is a token");
    }
    merges_.insert(left_id, right_id, {static_cast<uint32_t>(rank), id});
    merged_[static_cast<size_t>(id)] = true;
  }
  std::string text;
  for (size_t byte = 0; byte < 256; ++byte) {
    text.clear();
    append_utf8(byte_to_char(static_cast<uint8_t>(byte)), &text);
    byte_ids_[byte] = tokens_.find(text);
    has_all_bytes_ = has_all_bytes_ && byte_ids_[byte] != kNoId;
    fallback_ids_[byte] = tokens_.find(fmt::format("<0x{:02X}>", byte));
  }
  for (char32_t c = 0; c < kDirectChars; ++c) {
    text.clear();
    append_utf8(c, &text);
    char_ids_[c] = tokens_.find(text);
  }
}

void BpeModel::encode_word(std::string_view word, WordForm form, BpeScratch* scratch, std::vector<int32_t>* ids) const {
  if (word.size() > WordCache::kMaxWordBytes) {
    encode_uncached(word, form, nullptr, scratch);
    ids->insert(ids->end(), scratch->symbols.begin(), scratch->symbols.end());
    return;
  }
  const WordKey key = WordCache::key_of(word);
  const std::span<const int32_t> known = scratch->cache.find(word, key);
  if (!known.empty()) {
    ids->insert(ids->end(), known.begin(), known.end());
    return;
  }
  encode_uncached(word, form, nullptr, scratch);
  if (!scratch->symbols.empty()) scratch->cache.insert(word, key, scratch->symbols);
  ids->insert(ids->end(), scratch->symbols.begin(), scratch->symbols.end());
}

void BpeModel::encode_word_without(const std::vector<bool>& forbidden, std::string_view word, WordForm form,
                                   BpeScratch* scratch, std::vector<int32_t>* ids) const {
  encode_uncached(word, form, &forbidden, scratch);
  ids->insert(ids->end(), scratch->symbols.begin(), scratch->symbols.end());
}

void BpeModel::encode_uncached(std::string_view word, WordForm form, const std::vector<bool>* forbidden,
                               BpeScratch* scratch) const {
  if (word.size() > kMaxWordBytes) {
    throw DataError("tokenizer", "a single word is too long", word.size(), "at most 64 MiB",
                    "break the text into lines");
  }
  std::vector<int32_t>& symbols = scratch->symbols;
  symbols.clear();
  if (ignore_merges_) {
    std::string_view text = word;
    if (form == WordForm::kBytes) {
      scratch->chars.clear();
      append_byte_chars(word, &scratch->chars);
      text = scratch->chars;
    }
    const int32_t whole = tokens_.find(text);
    if (whole != kNoId && (!forbidden || !(*forbidden)[static_cast<size_t>(whole)])) {
      symbols.push_back(whole);
      return;
    }
  }
  first_symbols(word, form, scratch);
  merge(forbidden, scratch);
}

void BpeModel::first_symbols(std::string_view word, WordForm form, BpeScratch* scratch) const {
  if (form == WordForm::kChars) return char_symbols(word, &scratch->symbols);
  if (has_all_bytes_) {
    for (const char byte : word) scratch->symbols.push_back(byte_ids_[static_cast<uint8_t>(byte)]);
    return;
  }
  scratch->chars.clear();
  append_byte_chars(word, &scratch->chars);
  char_symbols(scratch->chars, &scratch->symbols);
}

// The order of the library: an unknown character waits, so that the next one can join it, until a known one comes; a
// fallback to bytes does not end the wait.
void BpeModel::char_symbols(std::string_view chars, std::vector<int32_t>* symbols) const {
  int32_t waiting = kNoId;
  for (size_t i = 0; i < chars.size();) {
    const DecodedChar c = decode_char(chars, i);
    const std::string_view text = chars.substr(i, c.length);
    i += c.length;
    const int32_t id = c.code_point < kDirectChars ? char_ids_[c.code_point] : tokens_.find(text);
    if (id != kNoId) {
      if (waiting != kNoId) symbols->push_back(waiting);
      waiting = kNoId;
      symbols->push_back(id);
      continue;
    }
    if (byte_fallback_ && append_fallback(text, symbols)) continue;
    if (!unk_token_) continue;
    if (waiting != kNoId && !fuse_unk_) symbols->push_back(waiting);
    waiting = unknown_id();
  }
  if (waiting != kNoId) symbols->push_back(waiting);
}

bool BpeModel::append_fallback(std::string_view character, std::vector<int32_t>* symbols) const {
  for (const char byte : character) {
    if (fallback_ids_[static_cast<uint8_t>(byte)] == kNoId) return false;
  }
  for (const char byte : character) symbols->push_back(fallback_ids_[static_cast<uint8_t>(byte)]);
  return true;
}

int32_t BpeModel::unknown_id() const {
  const int32_t id = tokens_.find(*unk_token_);
  if (id == kNoId) {
    throw DataError("tokenizer unk_token", "is not in the vocabulary", *unk_token_, "a token",
                    "the text holds a character that no token covers");
  }
  return id;
}

bool BpeModel::is_reachable(int32_t id) const {
  return tokens_.contains(id) && (ignore_merges_ || merged_[static_cast<size_t>(id)]);
}

bool BpeModel::has_independent_parts() const {
  const bool has_all_fallbacks = std::count(fallback_ids_.begin(), fallback_ids_.end(), kNoId) == 0;
  if (!unk_token_ && !(byte_fallback_ && has_all_fallbacks)) return false;
  std::vector<bool> stands_for_others(static_cast<size_t>(tokens_.size()));
  const auto mark = [&](int32_t id) {
    if (id != kNoId) stands_for_others[static_cast<size_t>(id)] = true;
  };
  if (unk_token_) mark(tokens_.find(*unk_token_));
  if (byte_fallback_) std::for_each(fallback_ids_.begin(), fallback_ids_.end(), mark);
  bool is_independent = true;
  merges_.for_each([&](int32_t left, int32_t right, const Merge&) {
    if (stands_for_others[static_cast<size_t>(left)] || stands_for_others[static_cast<size_t>(right)]) {
      is_independent = false;
    }
  });
  return is_independent;
}

}  // namespace litespark::token
