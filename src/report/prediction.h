// SPDX-License-Identifier: Apache-2.0
// What the planner said of a run before its first step, beside what was measured of it.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace litespark::report {

struct RunFolder;
struct RunFacts;

/// forecast.json: the forecast of `litespark plan --json`. Absent fields were not predicted.
struct Prediction {
  std::string hardware;  ///< that it was made for
  std::optional<double> tokens_per_second;
  std::optional<double> memory_bytes;  ///< of the fullest device
  std::optional<double> joules_per_token;
};

/// nullopt when the file is absent. Throws DataError naming the field that is malformed, IoError.
std::optional<Prediction> read_prediction(const std::filesystem::path& path);

/// A row a figure: predicted, measured, how far the prediction is off. What was not measured says so.
std::string prediction_section(const RunFolder& run, const RunFacts& facts);

}  // namespace litespark::report
