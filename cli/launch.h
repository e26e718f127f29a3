// SPDX-License-Identifier: Apache-2.0
// `--gpus N` without a launcher: this process starts N of itself, one a device, passes on what they print and what it
// is told, and ends as the first of them that fails. It touches no device.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/error.h"

namespace litespark::cli {

/// Variables beside those of dist/launch_environment.h that a launched rank finds.
inline constexpr const char* kSecretVariable = "LITESPARK_SECRET_FD";    ///< a pipe with the job's secret
inline constexpr const char* kListenerVariable = "LITESPARK_LISTEN_FD";  ///< rank 0: a socket that listens
inline constexpr const char* kParentVariable = "LITESPARK_PARENT";       ///< the launcher's process id

/// How long a rank has to end by itself after SIGTERM.
inline constexpr double kLaunchGraceSeconds = 10;

struct LaunchRequest {
  int num_ranks = 1;
  std::vector<std::string> arguments;  ///< without the program's name
  std::vector<std::string> devices;    ///< CUDA_VISIBLE_DEVICES of each rank; empty: none is set
  int64_t attempt = 0;                 ///< how often this job was started before
};

struct LaunchEnd {
  /// Of the first failure which is not only the loss of another rank.
  ExitCode code = ExitCode::kDone;
  /// Ranks that did not end by themselves (killed by a signal, or by the launcher after the grace time), or that
  /// suspect their hardware.
  std::vector<int> lost;
  bool was_asked = false;  ///< a signal to stop was passed on
};

/// Starts processes of this program and returns when all have ended. Their lines come out as "RANK: line". When one
/// fails, the others get SIGTERM, and SIGKILL after the grace time. SIGTERM, SIGINT, SIGUSR1, SIGUSR2 and SIGHUP are
/// passed on. Throws ConfigError when no process can be started.
LaunchEnd launch(const LaunchRequest& request);

/// One GPU for each rank: of those that the user left visible, else 0, 1, ... Throws ConfigError when they are too few.
std::vector<std::string> devices_for(int num_ranks);

/// `launch` once, for the code alone. `has_gpus`: each rank sees one GPU alone.
ExitCode launch_ranks(int num_ranks, const std::vector<std::string>& arguments, bool has_gpus);

/// In a rank: ends it by SIGTERM when its launcher dies, also when that happened already. Without one: does nothing.
void follow_launcher();

}  // namespace litespark::cli
