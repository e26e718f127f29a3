// SPDX-License-Identifier: Apache-2.0
// What each tier costs between the hosts at hand, measured when ranks meet: the tiers take turns within rounds, since
// what else a machine does changes from second to second by more than tiers differ.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "dist/communicator.h"
#include "dist/tier_policy.h"

namespace litespark::dist {

struct TierMeasurement {
  int64_t least_bytes = int64_t{4} << 10;
  int64_t most_bytes = int64_t{16} << 20;  ///< sizes between grow by a factor of 4
  int rounds = 15;                         ///< at least
  double size_seconds = 0.1;               ///< more rounds where a size takes less than so long, up to 101
  double seconds = 2;                      ///< no size is begun that would probably end later
};

/// Times of an all-reduce of f32 on `between`, each size and round once on each of `present`; the slowest rank of
/// `world` counts, and all its ranks get the same. `between` is a group of `world`, or itself; its calls follow
/// `chosen`, whose policy afterwards is what it was. Host memory. All ranks of `world` call it.
std::vector<TierTimes> measure_tiers(Communicator& world, Communicator& between, TierSwitch& chosen,
                                     std::span<const Tier> present, const TierMeasurement& options = {});

/// Seconds of an all-gather of so many bytes among `between`, sharded: the slowest rank's median.
double sharded_gather_seconds(Communicator& world, Communicator& between, TierSwitch& chosen, int64_t bytes);

/// "size  sharded  multicast  taken", a line a size, medians in ms.
std::string tier_table(std::span<const TierTimes> times, const TierPolicy& policy);

}  // namespace litespark::dist
