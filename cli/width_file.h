// SPDX-License-Identifier: Apache-2.0
// Where `litespark anatomy width` leaves what it measured, and what `litespark plan` says of a run with it.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "plan/width_table.h"
#include "spec/model_config.h"
#include "spec/run_config.h"

namespace litespark::cli {

/// Beside the matmul choices that are kept between runs; empty without a home folder.
std::filesystem::path default_width_file();

void write_width_table(const std::filesystem::path& file, WidthTable table);

/// Throws DataError, ConfigError, IoError.
WidthTable read_width_table(const std::filesystem::path& file);

/// What a file knows of a run's feed-forward width, a device's share of it.
struct RunWidths {
  std::string note;  ///< for people: the table and its verdict, or why there is none; empty when nobody named a file
  std::optional<WidthAdvice> advice;
};

/// `file` empty: the default one, where it is there and speaks of this hidden size.
RunWidths widths_of_run(const std::string& file, const RunConfig& config, const ModelConfig& model);

/// One object: "asked", "best", "slower" and "widths", "seconds" of the choices.
std::string widths_json(const WidthAdvice& advice);

}  // namespace litespark::cli
