// SPDX-License-Identifier: Apache-2.0
// Reads tokenizer.json into a TokenizerSpec. The file is not trusted: sizes, types and names are checked here, the
// consistency of the vocabulary in BpeModel and AddedTokens.
#pragma once

#include <string>
#include <string_view>

#include "token/tokenizer_spec.h"

namespace litespark::token {

/// Throws DataError for malformed JSON, wrong types, component types that are not supported (with their name), and
/// truncation or padding that is not null.
TokenizerSpec parse_tokenizer_json(std::string_view json);

/// XXH3-128 of `bytes` in hexadecimal, 32 digits.
std::string content_hash(std::string_view bytes);

}  // namespace litespark::token
