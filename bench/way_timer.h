// SPDX-License-Identifier: Apache-2.0
// Times all-reduces of f32 by several ways, which take turns within rounds.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "dist/communicator.h"
#include "dist/tier_policy.h"

namespace litespark {

struct Variant {
  std::string name;
  std::function<void()> prepare;  ///< in front of each call, on all ranks
  Communicator* communicator = nullptr;
};

/// Rank 0 prints a line a size, of 4 KiB and four times as much each, to `most_bytes`: medians of the slowest rank in
/// ms, and the median over rounds of the last variant's time by that of the best other one.
void time_sizes(Communicator& world, const std::vector<Variant>& variants, int rounds, int64_t most_bytes);

/// The tiers that are `present`, and as the last what `auto` measures and takes.
void time_tiers(Communicator& world, dist::TierSwitch& chosen, std::span<const dist::Tier> present, int rounds,
                int64_t most_bytes);

}  // namespace litespark
