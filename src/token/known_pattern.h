// SPDX-License-Identifier: Apache-2.0
// Hand-written scanners for the three patterns that most tokenizers split with. Each tiles its text: every byte
// belongs to one word.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace litespark::token {

enum class KnownPattern : uint8_t { kGpt2, kLlama3, kQwen };

/// The patterns as tokenizer.json files spell them (Oniguruma syntax).
inline constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
inline constexpr std::string_view kLlama3Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
inline constexpr std::string_view kQwenPattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

/// The scanner for `pattern`, if there is one.
std::optional<KnownPattern> find_known_pattern(std::string_view pattern);

/// End of the word that starts at `begin` (< text.size()) of valid UTF-8 `text`; equal to the pattern's match there.
size_t next_word_end(KnownPattern pattern, std::string_view text, size_t begin);

}  // namespace litespark::token
