// SPDX-License-Identifier: Apache-2.0
// Which devices' energy a rank of a run counts, so that all ranks together count each device once.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "meter/energy.h"
#include "spec/run_config.h"

namespace litespark::cli {

using Sensors = std::vector<std::unique_ptr<EnergySensor>>;

/// The first rank of a node counts its processor and memory, and all boards of the node that it sees. A rank that sees
/// one board alone, its own, counts that; other ranks of the node count nothing, but for their share of an estimated
/// processor.
Sensors sensors_of_rank(const RunConfig& config, bool is_gpu, int64_t rank);

/// RankCounts::joules of a rank other than the first.
class RankEnergy {
 public:
  RankEnergy(const RunConfig& config, bool is_gpu, int64_t rank) : meter_(sensors_of_rank(config, is_gpu, rank)) {}
  /// Since the call before; 0 without devices, NaN when one of them does not tell.
  double joules();

 private:
  EnergyMeter meter_;
};

}  // namespace litespark::cli
