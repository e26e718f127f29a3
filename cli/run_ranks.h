// SPDX-License-Identifier: Apache-2.0
// The ranks of a training run: who starts them, which of them this process is, and what they talk through.
#pragma once

#include <memory>
#include <optional>

#include "command.h"
#include "launch_dist.h"
#include "ops/backend.h"
#include "spec/run_config.h"

namespace litespark::cli {

/// What a launcher says of this process; nullopt: nobody has started ranks. A launcher's size becomes cluster.gpus
/// where that is 1. Throws ConfigError when both say otherwise.
std::optional<dist::LaunchPlace> place_among_ranks(RunConfig& config);

/// Which of the GPUs that this process sees is its own.
int device_of(const std::optional<dist::LaunchPlace>& place);

/// The other ranks, which compute on `backend`, whose memory their calls may take; nullptr where there is one.
/// `record`, where the run asks for one, takes this rank's calls. Throws ConfigError naming the settings that are not
/// the first rank's, with both values, or when they are another program.
std::unique_ptr<DistContext> meet_ranks(const RunConfig& config, const std::optional<dist::LaunchPlace>& place,
                                        Backend& backend, std::shared_ptr<dist::CallRecord> record);

}  // namespace litespark::cli
