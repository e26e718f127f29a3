// SPDX-License-Identifier: Apache-2.0
// Rewrites a pattern of Oniguruma's Ruby syntax (what tokenizer.json files hold) into PCRE2's: the same Unicode
// version, the same \s, \w and \h, the same anchors.
#pragma once

#include <string>
#include <string_view>

namespace litespark::token {

/// PCRE2 pattern that matches what `pattern` matches in Oniguruma.
/// Throws DataError for constructs that mean something else there and have no equal here (nested character classes).
std::string to_pcre2_syntax(std::string_view pattern);

/// `text` with every special character escaped: matches only itself in both syntaxes.
std::string escape_regex(std::string_view text);

}  // namespace litespark::token
