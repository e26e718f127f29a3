// SPDX-License-Identifier: Apache-2.0
// SIGTERM, SIGINT and one signal of the user's choice ask the run to save and stop; a second SIGINT ends it at once.
#pragma once

#include "spec/run_config.h"

namespace litespark::cli {

/// For the whole of a command that trains: where no step is under way a signal ends the process with its exit code and
/// a line that says so. One at a time.
class SignalWatch {
 public:
  SignalWatch();
  ~SignalWatch();
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

  /// Of several ranks one speaks for all.
  void set_speaks(bool is_speaker);
  /// The signal of the user's choice is watched too.
  void add(SaveSignal extra);
};

/// Signal handlers for the lifetime of this object; one at a time. Within a SignalWatch, signals after it change
/// nothing any more, but for a second SIGINT, which always ends the process: the run has been saved, and what is left
/// takes a moment.
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
