// SPDX-License-Identifier: Apache-2.0
// Normalizers, pre-tokenizers and decoders; tokenizer_json_model.cpp reads the rest.
#include "token/tokenizer_json.h"

#include <array>
#include <utility>

#include "token/unicode.h"

namespace litespark::token {
namespace {

[[noreturn]] void refuse_type(const JsonValue& node, std::string_view type) {
  throw DataError(node.path(), "has a type that is not supported", fmt::format("\"{}\"", type),
                  "a component of a Llama-family tokenizer");
}

template <class Kind, size_t kCount>
Kind find_kind(const JsonValue& node, const std::array<std::pair<std::string_view, Kind>, kCount>& kinds) {
  const std::string_view type = node.at("type").string();
  for (const auto& [name, kind] : kinds) {
    if (name == type) return kind;
  }
  refuse_type(node, type);
}

// Paths grow with nesting, so their length bounds the depth of recursion.
constexpr size_t kMaxPathBytes = 2000;

template <class Read>
bool read_sequence(const JsonValue& node, std::string_view member, Read&& read) {
  if (node.at("type").string() != "Sequence") return false;
  if (node.path().size() > kMaxPathBytes) throw DataError("tokenizer.json", "nests sequences too deeply");
  node.at(member).for_each_element(read);
  return true;
}

PatternSpec read_pattern(const JsonValue& node) {
  const JsonValue pattern = node.at("pattern");
  if (const auto literal = pattern.find("String")) return {false, std::string(literal->string())};
  return {true, std::string(pattern.at("Regex").string())};
}

std::string read_character(const JsonValue& node) {
  const std::string_view text = node.string();
  if (text.empty() || char_length(text[0]) != text.size()) {
    throw DataError(node.path(), "must be one character", fmt::format("\"{}\"", text), "one character");
  }
  return std::string(text);
}

SplitBehavior read_behavior(const JsonValue& node, std::string_view fallback) {
  const std::string name = node.string_or("behavior", fallback);
  if (name == "Removed") return SplitBehavior::kRemoved;
  if (name == "Isolated") return SplitBehavior::kIsolated;
  if (name == "MergedWithPrevious") return SplitBehavior::kMergedWithPrevious;
  if (name == "MergedWithNext") return SplitBehavior::kMergedWithNext;
  if (name == "Contiguous") return SplitBehavior::kContiguous;
  throw DataError(node.path() + ".behavior", "is unknown", fmt::format("\"{}\"", name),
                  "Removed, Isolated, MergedWithPrevious, MergedWithNext or Contiguous");
}

PrependScheme read_prepend_scheme(const JsonValue& node) {
  const std::string name = node.string_or("prepend_scheme", "always");
  if (name != "always" && name != "first" && name != "never") {
    throw DataError(node.path() + ".prepend_scheme", "is unknown", fmt::format("\"{}\"", name),
                    "always, first or never");
  }
  const PrependScheme scheme = name == "always"  ? PrependScheme::kAlways
                               : name == "first" ? PrependScheme::kFirst
                                                 : PrependScheme::kNever;
  if (!node.boolean_or("add_prefix_space", true) && scheme != PrependScheme::kNever) {
    throw DataError(node.path(), "contradicts itself", "add_prefix_space false with prepend_scheme " + name,
                    "prepend_scheme never");
  }
  return scheme;
}

size_t read_count(const JsonValue& node) {
  const int64_t value = node.integer();
  if (value < 0 || value > 1 << 20) throw DataError(node.path(), "is out of range", value, "0 to 2^20");
  return static_cast<size_t>(value);
}

}  // namespace

void read_normalizer(const JsonValue& node, std::vector<NormalizerSpec>* steps) {
  using Kind = NormalizerSpec::Kind;
  constexpr std::array<std::pair<std::string_view, Kind>, 10> kKinds = {{{"NFC", Kind::kNfc},
                                                                         {"NFD", Kind::kNfd},
                                                                         {"NFKC", Kind::kNfkc},
                                                                         {"NFKD", Kind::kNfkd},
                                                                         {"Lowercase", Kind::kLowercase},
                                                                         {"Prepend", Kind::kPrepend},
                                                                         {"Replace", Kind::kReplace},
                                                                         {"Strip", Kind::kStrip},
                                                                         {"StripAccents", Kind::kStripAccents},
                                                                         {"ByteLevel", Kind::kByteLevel}}};
  if (read_sequence(node, "normalizers", [&](const JsonValue& child) { read_normalizer(child, steps); })) return;
  NormalizerSpec spec;
  spec.kind = find_kind(node, kKinds);
  if (spec.kind == Kind::kPrepend) spec.content = node.at("prepend").string();
  if (spec.kind == Kind::kReplace) {
    spec.pattern = read_pattern(node);
    spec.content = node.at("content").string();
  }
  if (spec.kind == Kind::kStrip) {
    spec.strip_left = node.at("strip_left").boolean();
    spec.strip_right = node.at("strip_right").boolean();
  }
  steps->push_back(std::move(spec));
}

void read_pre_tokenizer(const JsonValue& node, std::vector<PreTokenizerSpec>* steps) {
  using Kind = PreTokenizerSpec::Kind;
  constexpr std::array<std::pair<std::string_view, Kind>, 8> kKinds = {{{"ByteLevel", Kind::kByteLevel},
                                                                        {"Split", Kind::kSplit},
                                                                        {"Digits", Kind::kDigits},
                                                                        {"Metaspace", Kind::kMetaspace},
                                                                        {"Punctuation", Kind::kPunctuation},
                                                                        {"Whitespace", Kind::kWhitespace},
                                                                        {"WhitespaceSplit", Kind::kWhitespaceSplit},
                                                                        {"CharDelimiterSplit", Kind::kDelimiter}}};
  if (read_sequence(node, "pretokenizers", [&](const JsonValue& child) { read_pre_tokenizer(child, steps); })) return;
  PreTokenizerSpec spec;
  spec.kind = find_kind(node, kKinds);
  switch (spec.kind) {
    case Kind::kByteLevel:
      spec.add_prefix_space = node.at("add_prefix_space").boolean();
      spec.use_regex = node.boolean_or("use_regex", true);
      break;
    case Kind::kSplit:
      spec.pattern = read_pattern(node);
      spec.behavior = read_behavior(node, "");
      spec.invert = node.boolean_or("invert", false);
      break;
    case Kind::kDigits: spec.individual_digits = node.at("individual_digits").boolean(); break;
    case Kind::kMetaspace:
      spec.character = read_character(node.at("replacement"));
      spec.prepend_scheme = read_prepend_scheme(node);
      spec.split = node.boolean_or("split", true);
      break;
    case Kind::kPunctuation: spec.behavior = read_behavior(node, "Isolated"); break;
    case Kind::kWhitespaceSplit: spec.behavior = SplitBehavior::kRemoved; break;
    case Kind::kDelimiter:
      spec.character = read_character(node.at("delimiter"));
      spec.behavior = SplitBehavior::kRemoved;
      break;
    case Kind::kWhitespace: break;
  }
  steps->push_back(std::move(spec));
}

void read_decoder(const JsonValue& node, std::vector<DecoderSpec>* steps) {
  using Kind = DecoderSpec::Kind;
  constexpr std::array<std::pair<std::string_view, Kind>, 7> kKinds = {{{"ByteLevel", Kind::kByteLevel},
                                                                        {"Replace", Kind::kReplace},
                                                                        {"ByteFallback", Kind::kByteFallback},
                                                                        {"Fuse", Kind::kFuse},
                                                                        {"Strip", Kind::kStrip},
                                                                        {"Metaspace", Kind::kMetaspace},
                                                                        {"BPEDecoder", Kind::kBpe}}};
  if (read_sequence(node, "decoders", [&](const JsonValue& child) { read_decoder(child, steps); })) return;
  DecoderSpec spec;
  spec.kind = find_kind(node, kKinds);
  switch (spec.kind) {
    case Kind::kReplace:
      spec.pattern = read_pattern(node);
      spec.content = node.at("content").string();
      break;
    case Kind::kStrip:
      spec.content = read_character(node.at("content"));
      spec.start = read_count(node.at("start"));
      spec.stop = read_count(node.at("stop"));
      break;
    case Kind::kMetaspace:
      spec.content = read_character(node.at("replacement"));
      spec.prepend_scheme = read_prepend_scheme(node);
      break;
    case Kind::kBpe: spec.content = node.at("suffix").string(); break;
    default: break;
  }
  steps->push_back(std::move(spec));
}

}  // namespace litespark::token
