// SPDX-License-Identifier: Apache-2.0
// The ways that calls between hosts can take in this run, and which of them takes what.
#pragma once

#include <memory>
#include <string>

#include "dist/communicator.h"
#include "dist/rendezvous.h"
#include "dist/tiered_link.h"

namespace litespark::dist {
class NormLink;
}

namespace litespark::cli {

struct TierRequest {
  enum class Choice : uint8_t { kSharded, kThresholds, kMeasured };
  Choice choice = Choice::kSharded;
  int64_t multicast_below = 1000000;   ///< with kThresholds
  int64_t one_sided_below = 10000000;  ///< likewise
};

class HostTiers {
 public:
  /// Tries what this program was built with, where ranks stand on several hosts. All ranks call it, and agree.
  HostTiers(dist::Rendezvous& rendezvous, const TierRequest& request, double timeout_seconds);

  /// The ways in the place of the usual one alone.
  std::unique_ptr<dist::Link> wrap(std::unique_ptr<dist::Link> usual);
  /// Decides what goes which way, and says so, with what was measured: "" where there is nothing to decide. `between`:
  /// this rank's group of ranks on different hosts, or all of them. All ranks call it, before any other call.
  std::string settle(Communicator& world, Communicator& between);

 private:
  TierRequest request_;
  bool are_several_hosts_ = false;
  std::shared_ptr<dist::TierSwitch> chosen_ = std::make_shared<dist::TierSwitch>();
  std::vector<dist::TierLink> others_;   ///< until `wrap`
  dist::NormLink* multicast_ = nullptr;  ///< in the wrapped link; nullptr: there is none
  std::string missing_;                  ///< why
};

}  // namespace litespark::cli
