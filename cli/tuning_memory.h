// SPDX-License-Identifier: Apache-2.0
// device.tuning_file: what earlier runs timed on this machine is taken before ops are prepared, what this one timed is
// added afterwards.
#pragma once

#include <filesystem>

#include "ops/backend.h"
#include "spec/run_config.h"

namespace litespark::cli {

class TuningMemory {
 public:
  /// Gives the backend what the file holds. A named file that is no tuning file is a DataError; the default one is a
  /// cache, so it is left alone with a warning.
  TuningMemory(const RunConfig& config, Backend& backend);
  /// Adds the backend's choices to the file; a warning when it cannot be written.
  void keep(const Backend& backend) const;

 private:
  std::filesystem::path path_;  ///< empty: nothing is kept
  std::string search_;
};

}  // namespace litespark::cli
