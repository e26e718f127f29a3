// SPDX-License-Identifier: Apache-2.0
// Ranks on several hosts, in two levels: what ranks of one host can do among themselves never leaves it, and between
// hosts each rank talks to those at its own place alone. Composed of groups of any communicator, by splitting it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "dist/communicator.h"

namespace litespark {

struct HierarchyOptions {
  int host = 0;  ///< a number that ranks of one host share, and no others have; 0 or more
  /// Memory where the communicator's tensors live, of so many bytes. Empty: host memory.
  std::function<std::shared_ptr<void>(int64_t bytes)> allocate;
  /// Calls on at most so many bytes are the flat communicator's: they cost steps, not bytes.
  int64_t direct_bytes = int64_t{16} << 10;
};

struct Hierarchy {
  std::unique_ptr<Communicator> communicator;
  bool has_levels = false;
  int ranks_per_host = 1;  ///< with levels
  std::string layout;      ///< "2 hosts of 4 ranks"; without levels, why: "3 ranks of one host"
};

/// The two levels over `flat`, where its ranks stand evenly on two hosts or more, at least two on each, those of a host
/// one after another; else `flat` itself. Collective.
///
/// With L ranks on each of N hosts, an all-reduce is a reduce-scatter inside each host, an all-reduce of the piece
/// among ranks at the same place, and an all-gather inside; a reduce-scatter and an all-gather of S bytes take N calls
/// inside and one between hosts, and S / L bytes of scratch memory: there is as much of it as the largest call wanted,
/// and shorter ones share it side by side. Links between hosts carry 1 / L of what a flat call sends.
///
/// A sum adds the ranks of each host in the flat communicator's order and then the hosts' sums likewise (bf16 is
/// rounded once at each level): other bits than a flat sum, the same bits again on the same layout. `is_ordered` is
/// false. Exchange, all-to-all and whatever is short go over the flat communicator. A group from `split` has two levels
/// again, where its own ranks stand evenly.
///
/// Each part of a call has the deadline: of a rank that is late its own host hears first, and another host may name the
/// rank that waits for it.
Hierarchy make_hierarchical(std::unique_ptr<Communicator> flat, const HierarchyOptions& options);

}  // namespace litespark
