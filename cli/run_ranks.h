// SPDX-License-Identifier: Apache-2.0
// The ranks that a training run has, and what they talk through.
#pragma once

#include <memory>

#include "dist/communicator.h"
#include "ops/backend.h"
#include "spec/run_config.h"

namespace litespark::cli {

/// The communicator of all ranks, which compute on `backend` and outlive neither; nullptr where there is one rank.
/// Throws ConfigError for ranks that this program cannot start.
std::unique_ptr<Communicator> open_ranks(const RunConfig& config, Backend& backend);

}  // namespace litespark::cli
