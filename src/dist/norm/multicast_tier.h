// SPDX-License-Identifier: Apache-2.0
// Whether the ranks of a job can multicast to each other: tried once, when they meet, and agreed by all.
#pragma once

#include <memory>
#include <string>

#include "dist/norm/norm_link.h"
#include "dist/rendezvous.h"

namespace litespark::dist {

struct MulticastTier {
  std::unique_ptr<NormLink> link;  ///< nullptr where it does not work between all ranks
  std::string missing;             ///< then: "rank 2: no word from rank 0 before the deadline"
};

/// Every rank tells all the others a word, within `probe_seconds`; where one of them hears less, none has the tier. All
/// ranks call it. `lost_percent`: see NormOptions. Throws CommError when the rendezvous loses a rank or at the
/// deadline.
MulticastTier make_multicast_tier(Rendezvous& rendezvous, Clock::time_point deadline, double probe_seconds = 1,
                                  double lost_percent = 0);

}  // namespace litespark::dist
