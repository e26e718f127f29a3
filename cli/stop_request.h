// SPDX-License-Identifier: Apache-2.0
// SIGTERM, SIGINT and one signal of the user's choice ask the run to save and stop; a second SIGINT ends it at once.
#pragma once

#include "spec/run_config.h"

namespace litespark::cli {

/// Signal handlers for the lifetime of this object; one at a time.
class StopRequest {
 public:
  explicit StopRequest(SaveSignal extra);
  ~StopRequest();
  StopRequest(const StopRequest&) = delete;
  StopRequest& operator=(const StopRequest&) = delete;

  /// Whether a signal came.
  static bool is_made();
};

}  // namespace litespark::cli
