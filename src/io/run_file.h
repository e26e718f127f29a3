// SPDX-License-Identifier: Apache-2.0
// Run files: TOML plus the command line's overrides into a RunConfig, and the effective configuration back into TOML.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "spec/run_config.h"

namespace litespark {

/// One `--section.key=value` of the command line.
struct ConfigOverride {
  std::string path;   ///< "train.steps"
  std::string value;  ///< as typed
};

/// The text of a file that the user names for its settings. ConfigError when there is no such file, DataError above
/// 1 MiB, IoError when reading fails.
std::string read_toml_text(const std::filesystem::path& path);

/// Assigns every key of a TOML document to its field. `name` is what errors call the document. Throws ConfigError with
/// the line for bad TOML, an unknown key at any level (with the nearest one), a wrong type or a value out of range.
void read_toml(std::string_view text, std::string_view name, const Fields& fields);

/// Later than the file, so they win. Throws ConfigError for unknown keys and values, and when one key is given two
/// different values.
void apply_overrides(std::span<const ConfigOverride> overrides, const Fields& fields);

/// File, then overrides, then RunConfig::validate; an unset `out` becomes runs/<the file's stem>. Throws ConfigError,
/// also when there is no such file; DataError above 1 MiB, IoError when reading fails.
RunConfig read_run_file(const std::filesystem::path& path, std::span<const ConfigOverride> overrides = {});

/// All set keys; read_run_file gives back an equal configuration.
std::string run_config_toml(const RunConfig& config);
/// The same as JSON, for the manifest.
std::string run_config_json(const RunConfig& config);

}  // namespace litespark
