// SPDX-License-Identifier: Apache-2.0
// GPT-2's alphabet: every byte is written as one printable character, so that tokens are text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace litespark::token {

/// The character (U+0021 ... U+0143) that stands for `byte`.
char32_t byte_to_char(uint8_t byte);

/// The byte that `code_point` stands for, if it is of the alphabet.
std::optional<uint8_t> char_to_byte(char32_t code_point);

/// Appends `bytes` written in the alphabet.
void append_byte_chars(std::string_view bytes, std::string* out);

/// Appends the bytes that `token` stands for; a token with any character outside the alphabet stands for its own UTF-8.
void append_token_bytes(std::string_view token, std::string* out);

}  // namespace litespark::token
