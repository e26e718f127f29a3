// SPDX-License-Identifier: Apache-2.0
// A run that goes on without the ranks that it loses: whose launcher starts those that are left again, from the newest
// checkpoint, with the same micro-batches a step.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "command.h"
#include "launch.h"
#include "spec/run_config.h"

namespace litespark::cli {

/// How many ranks share out a step, and how many micro-batches each data rank takes.
struct RankShare {
  int64_t gpus = 1;
  int64_t accumulation = 1;

  bool operator==(const RankShare&) const = default;
};

/// The largest layout of at most `ranks` with as many micro-batches a step as `config` has: replicas as large as they
/// are, fewer of them, each with an equal share (interleaved pipeline stages: in whole rounds). nullopt: not even one
/// replica is left.
std::optional<RankShare> share_among(const RunConfig& config, int64_t ranks);

/// What the ranks of a later start are called with: the words of `line` with another share, and with the newest
/// checkpoint where there is one.
std::vector<std::string> restart_arguments(const CommandLine& line, const RankShare& share, bool has_checkpoint);

struct ElasticRun {
  RunConfig config;
  CommandLine line;
  std::vector<std::string> devices;  ///< one a rank, or none
  /// Runs ranks to their end.
  std::function<LaunchEnd(const LaunchRequest&)> launch;
  /// The newest checkpoint's step.
  std::function<std::optional<int64_t>()> newest_step;
};

/// Launches the run's ranks, and again those that are left whenever some are lost (LaunchEnd::lost), or lost each
/// other. Ends with any other failure, when it was asked to stop, when too few are left, or after
/// `distribution.max_restarts` starts in a row without a newer checkpoint; the code is the last one's.
ExitCode run_elastic(ElasticRun run);

}  // namespace litespark::cli
