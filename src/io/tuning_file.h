// SPDX-License-Identifier: Apache-2.0
// What was timed on this machine, kept between runs: a JSON file of choices, each under a key that names the problem,
// the library and the device, so that one file serves several of each.
#pragma once

#include <filesystem>
#include <map>
#include <string>

namespace litespark {

/// Key to choice, as Backend::tuning gives them.
using TuningChoices = std::map<std::string, std::string>;

/// Choices by how long was searched for them ("quick", "thorough").
using TuningBySearch = std::map<std::string, TuningChoices>;

/// $XDG_CACHE_HOME/litespark/tuning.json or $HOME/.cache/litespark/tuning.json; empty when neither variable is set.
std::filesystem::path default_tuning_file();

/// Empty when there is no such file. Throws DataError naming what is wrong in it, IoError when it cannot be read.
TuningBySearch read_tuning_file(const std::filesystem::path& path);

/// What a run that searches as `search` says may take: choices of a longer search first.
TuningChoices usable_choices(const TuningBySearch& known, const std::string& search);

/// Adds `choices` to the file and makes it, with its folders, where it is absent. Runs that add at the same moment keep
/// the file whole; one of them may have to time again. Throws IoError.
void add_to_tuning_file(const std::filesystem::path& path, const std::string& search, const TuningChoices& choices);

}  // namespace litespark
