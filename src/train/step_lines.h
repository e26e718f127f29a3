// SPDX-License-Identifier: Apache-2.0
// What the logs of a run share: lines of JSON with a "step", of which a resumed run keeps those of the steps it has.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace litespark {

/// The number after `"key": ` in a line of one of our logs; nullopt in a torn one.
std::optional<int64_t> integer_in_line(std::string_view line, std::string_view key);

/// The whole lines of `path` whose step is at most `last_step`, each with its line feed; lines of later steps, which
/// the resumed run will take again, and a torn last line are left out. Empty when the file is absent. Throws IoError.
std::string lines_up_to_step(const std::filesystem::path& path, int64_t last_step);

}  // namespace litespark
