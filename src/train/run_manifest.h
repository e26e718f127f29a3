// SPDX-License-Identifier: Apache-2.0
// manifest.json of a run folder: with what each start of the run computed, so that figures can be told apart later.
// Says nothing that a resume depends on: that stands in the checkpoints.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace litespark {

/// One start of the program for the run.
struct RunStart {
  using Facts = std::map<std::string, std::string>;

  std::string time;                  ///< UTC, ISO 8601; a label, no clock to compute with
  int64_t from_step = 0;             ///< steps that were done before
  std::vector<std::string> command;  ///< the words after the program's name, as typed
  Facts versions;                    ///< of the program, its compiler and libraries
  Facts hardware;
  Facts hashes;  ///< "config": of run.toml's bytes; "data": the source's fingerprint; "tokenizer": of tokenizer.json
  Facts tuning;  ///< choices made by timing
};

/// Appends `start` to `path`'s {"format": 1, "starts": [...]}, atomically. The first and the newest starts are kept,
/// kMostStarts in all. Throws IoError; DataError when what is there is no such file.
void append_run_start(const std::filesystem::path& path, const RunStart& start);

inline constexpr int64_t kMostStarts = 100;

/// Now, as RunStart::time.
std::string utc_time_text();

}  // namespace litespark
