// SPDX-License-Identifier: Apache-2.0
#include "token/decoder.h"

#include <charconv>
#include <string_view>

#include "core/error.h"
#include "token/byte_alphabet.h"
#include "token/regex.h"
#include "token/unicode.h"

namespace litespark::token {
namespace {

using Kind = DecoderSpec::Kind;
using Tokens = std::vector<std::string>;

constexpr std::string_view kReplacementChar = "\xEF\xBF\xBD";

std::string join(const Tokens& tokens, std::string_view separator) {
  std::string out;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (i > 0) out += separator;
    out += tokens[i];
  }
  return out;
}

Tokens decode_byte_level(const Tokens& tokens) {
  std::string bytes;
  for (const std::string& token : tokens) append_token_bytes(token, &bytes);
  return {is_valid_utf8(bytes) ? bytes : repair_utf8(bytes)};
}

std::optional<uint8_t> fallback_byte(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token.back() != '>') return std::nullopt;
  uint8_t byte = 0;
  // Like the library's parser this takes a plus sign before a single digit.
  const char* first = token.data() + (token[3] == '+' ? 4 : 3);
  const auto [end, error] = std::from_chars(first, token.data() + 5, byte, 16);
  if (error != std::errc{} || end != token.data() + 5) return std::nullopt;
  return byte;
}

// Runs of byte tokens become text if the whole run is UTF-8, else one U+FFFD a byte.
Tokens decode_byte_fallback(const Tokens& tokens) {
  Tokens out;
  std::string run;
  const auto flush = [&] {
    if (run.empty()) return;
    if (is_valid_utf8(run)) {
      out.push_back(run);
    } else {
      out.insert(out.end(), run.size(), std::string(kReplacementChar));
    }
    run.clear();
  };
  for (const std::string& token : tokens) {
    if (const std::optional<uint8_t> byte = fallback_byte(token)) {
      run.push_back(static_cast<char>(*byte));
      continue;
    }
    flush();
    out.push_back(token);
  }
  flush();
  return out;
}

std::string replace_all(std::string_view text, std::string_view pattern, std::string_view content) {
  std::string out;
  size_t done = 0;
  for (size_t at = text.find(pattern); at != std::string_view::npos; at = text.find(pattern, done)) {
    out.append(text.substr(done, at - done)).append(content);
    done = at + pattern.size();
  }
  return out.append(text.substr(done));
}

std::string strip(const DecoderSpec& spec, std::string_view text) {
  const std::string& cut = spec.content;
  const std::string_view original = text;
  for (size_t i = 0; i < spec.start && text.starts_with(cut); ++i) text.remove_prefix(cut.size());
  std::string_view tail = original;
  size_t removed = 0;
  for (size_t i = 0; i < spec.stop && tail.ends_with(cut); ++i, removed += cut.size()) tail.remove_suffix(cut.size());
  text.remove_suffix(std::min(removed, text.size()));
  return std::string(text);
}

std::string metaspace(const DecoderSpec& spec, std::string_view text, bool is_first) {
  const bool drops = is_first && spec.prepend_scheme != PrependScheme::kNever;
  return replace_all(text, spec.content, drops ? "" : " ");
}

}  // namespace

struct Decoder::Step {
  DecoderSpec spec;
  std::optional<Regex> regex;

  std::string replace(const std::string& token) const {
    if (!regex) return replace_all(token, spec.pattern.text, spec.content);
    std::string out;
    size_t done = 0;
    regex->for_each_match(token, [&](TextRange match) {
      out.append(token, done, match.begin - done).append(spec.content);
      done = match.end;
    });
    return out.append(token, done);
  }

  std::string apply_to_token(const std::string& token, size_t index, size_t count) const {
    switch (spec.kind) {
      case Kind::kReplace: return replace(token);
      case Kind::kStrip: return strip(spec, token);
      case Kind::kMetaspace: return metaspace(spec, token, index == 0);
      case Kind::kBpe: return replace_all(token, spec.content, index + 1 == count ? "" : " ");
      default: throw InternalError("Decoder", "not a step of single tokens");
    }
  }

  Tokens apply(Tokens tokens) const {
    switch (spec.kind) {
      case Kind::kByteLevel: return decode_byte_level(tokens);
      case Kind::kByteFallback: return decode_byte_fallback(tokens);
      case Kind::kFuse: return {join(tokens, "")};
      default: break;
    }
    for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = apply_to_token(tokens[i], i, tokens.size());
    return tokens;
  }
};

Decoder::Decoder(const std::optional<std::vector<DecoderSpec>>& specs) : joins_with_spaces_(!specs) {
  if (!specs) return;
  for (const DecoderSpec& spec : *specs) {
    auto step = std::make_unique<Step>();
    step->spec = spec;
    if (spec.kind == Kind::kReplace && spec.pattern.is_regex) step->regex.emplace(spec.pattern);
    const bool is_empty = spec.kind == Kind::kReplace ? spec.pattern.text.empty()
                                                      : (spec.kind == Kind::kStrip || spec.kind == Kind::kMetaspace ||
                                                         spec.kind == Kind::kBpe) &&
                                                            spec.content.empty();
    if (is_empty) throw DataError("tokenizer decoder", "has an empty pattern", "\"\"", "a text");
    steps_.push_back(std::move(step));
  }
}

Decoder::~Decoder() = default;
Decoder::Decoder(Decoder&&) noexcept = default;
Decoder& Decoder::operator=(Decoder&&) noexcept = default;

bool Decoder::is_byte_level() const {
  return steps_.size() == 1 && steps_[0]->spec.kind == Kind::kByteLevel;
}

std::string Decoder::decode(std::vector<std::string> tokens) const {
  for (const auto& step : steps_) tokens = step->apply(std::move(tokens));
  return join(tokens, joins_with_spaces_ ? " " : "");
}

}  // namespace litespark::token
