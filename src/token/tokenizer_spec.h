// SPDX-License-Identifier: Apache-2.0
// What a tokenizer.json says, as plain structs: read by tokenizer_file, compiled by the components. Nested
// "Sequence" nodes are flattened into vectors.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace litespark::token {

/// A literal or a regular expression in Oniguruma's Ruby syntax.
struct PatternSpec {
  bool is_regex = false;
  std::string text;
};

/// What happens to a delimiter: dropped, alone, joined to the left, to the right, or runs joined together.
enum class SplitBehavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

enum class PrependScheme { kAlways, kFirst, kNever };

struct NormalizerSpec {
  enum class Kind { kNfc, kNfd, kNfkc, kNfkd, kLowercase, kPrepend, kReplace, kStrip, kStripAccents, kByteLevel };
  Kind kind = Kind::kNfc;
  PatternSpec pattern;  ///< kReplace
  std::string content;  ///< kPrepend, kReplace
  bool strip_left = true;
  bool strip_right = true;
};

struct PreTokenizerSpec {
  enum class Kind { kByteLevel, kSplit, kDigits, kMetaspace, kPunctuation, kWhitespace, kWhitespaceSplit, kDelimiter };
  Kind kind = Kind::kByteLevel;
  bool add_prefix_space = true;    ///< kByteLevel
  bool use_regex = true;           ///< kByteLevel
  bool individual_digits = false;  ///< kDigits
  PatternSpec pattern;             ///< kSplit
  SplitBehavior behavior = SplitBehavior::kIsolated;
  bool invert = false;
  std::string character;  ///< kMetaspace: the replacement; kDelimiter: the delimiter (one character)
  PrependScheme prepend_scheme = PrependScheme::kAlways;
  bool split = true;
};

/// One piece of a template: the first text, the second text, or ids of special tokens.
struct TemplatePiece {
  enum class Kind { kFirst, kSecond, kSpecial };
  Kind kind = Kind::kFirst;
  std::vector<int32_t> ids;
};

/// Pieces around one text and around a pair; without template: the texts alone.
struct TemplateSpec {
  std::vector<TemplatePiece> single = {{TemplatePiece::Kind::kFirst, {}}};
  std::vector<TemplatePiece> pair = {{TemplatePiece::Kind::kFirst, {}}, {TemplatePiece::Kind::kSecond, {}}};
};

struct DecoderSpec {
  enum class Kind { kByteLevel, kReplace, kByteFallback, kFuse, kStrip, kMetaspace, kBpe };
  Kind kind = Kind::kFuse;
  PatternSpec pattern;  ///< kReplace
  std::string content;  ///< kReplace: replacement; kStrip, kMetaspace: one character; kBpe: suffix
  size_t start = 0;     ///< kStrip
  size_t stop = 0;
  PrependScheme prepend_scheme = PrependScheme::kAlways;
};

struct AddedTokenSpec {
  int32_t id = 0;
  std::string content;
  bool single_word = false;
  bool lstrip = false;
  bool rstrip = false;
  bool normalized = true;
  bool special = false;
};

struct BpeSpec {
  std::vector<std::pair<std::string, int32_t>> vocab;
  std::vector<std::pair<std::string, std::string>> merges;
  std::optional<std::string> unk_token;
  bool fuse_unk = false;
  bool byte_fallback = false;
  bool ignore_merges = false;
};

struct TokenizerSpec {
  std::vector<AddedTokenSpec> added_tokens;
  std::vector<NormalizerSpec> normalizers;
  std::vector<PreTokenizerSpec> pre_tokenizers;
  TemplateSpec post_processor;
  std::optional<std::vector<DecoderSpec>> decoders;  ///< without decoder: tokens are joined by spaces
  BpeSpec model;
};

}  // namespace litespark::token
