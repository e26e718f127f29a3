// SPDX-License-Identifier: Apache-2.0
// `--gpus N` without a launcher: this process starts N of itself, one a device, passes on what they print and what it
// is told, and ends as the first of them that fails. It touches no device.
#pragma once

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

/// Starts `num_ranks` processes of this program with `arguments` (without the program's name) and returns when all have
/// ended. Their lines come out as "RANK: line". When one fails, the others get SIGTERM, and SIGKILL after the grace
/// time; the code is that of the first failure which is not only the loss of another rank. SIGTERM, SIGINT, SIGUSR1,
/// SIGUSR2 and SIGHUP are passed on. `has_gpus`: each rank sees one GPU alone. Throws ConfigError when no process can
/// be started.
ExitCode launch_ranks(int num_ranks, const std::vector<std::string>& arguments, bool has_gpus);

/// In a rank: ends it by SIGTERM when its launcher dies, also when that happened already. Without one: does nothing.
void follow_launcher();

}  // namespace litespark::cli
