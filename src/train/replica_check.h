// SPDX-License-Identifier: Apache-2.0
// Looks for ranks whose copies of one model differ: what forward reads and what steps are decided from must be the same
// bits on all data-parallel ranks. Finds a flipped bit in a weight that stays until it is gathered anew, an update that
// one rank computed wrong, and weights that were not the same from the start.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "model/executor.h"

namespace litespark {

/// One tensor that is not the same on all ranks.
struct ReplicaDifference {
  size_t tensor = 0;           ///< which column of the table
  std::vector<int64_t> ranks;  ///< those that most of the others contradict; all where no majority agrees
  bool has_majority = false;
};

/// `table` [R, T]: each rank's checksum of each tensor.
std::vector<ReplicaDifference> find_replica_differences(std::span<const int64_t> table, int64_t ranks);

/// Runs kReplicas behind a step's micro-batches; all ranks call it. Throws DeviceError, on every rank alike, naming
/// `step`, the tensors and the ranks in the minority.
void check_replicas(Executor& executor, int64_t step);

}  // namespace litespark
