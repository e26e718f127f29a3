// SPDX-License-Identifier: Apache-2.0
// "Did you mean": the name that a misspelt one most likely stands for.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace litespark {

/// Insertions, deletions, replacements and swaps of neighbours that turn `a` into `b` (optimal string alignment);
/// hyphen and underscore count as one character.
int64_t edit_distance(std::string_view a, std::string_view b);

/// The closest candidate, or "" when none is close: at most a third of the letters, and at least one, may differ.
std::string nearest_name(std::string_view name, std::span<const std::string> candidates);

}  // namespace litespark
