// SPDX-License-Identifier: Apache-2.0
// Small questions to free text: does it hold a word, which number stands before a unit or after a name.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace litespark {

std::string lower_text(std::string_view text);
bool contains_text(std::string_view text, std::string_view part);
bool contains_any_text(std::string_view text, std::initializer_list<std::string_view> parts);

/// "2.4" of "hbm2e 2.4 tb/s" for the unit "tb/s"; one space between them at most. The first that is a number.
std::optional<double> number_before(std::string_view text, std::string_view unit);
/// "2" of "GA=32; cp=2;" for the name "cp=", which no letter precedes.
std::optional<double> number_after(std::string_view text, std::string_view name);
/// The whole text as a finite number; spaces around it are allowed.
std::optional<double> whole_number_text(std::string_view text);

/// The year that a source names: 2022 in "Smith 2022" or in "arXiv:2205.05198"; the latest when there are several.
std::optional<int> year_in_text(std::string_view text);

}  // namespace litespark
