// SPDX-License-Identifier: Apache-2.0
// A link that takes one of several ways for each call, by the call's size. Who adds what in which order is not its
// matter, so that every way gives the same bits.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "dist/link.h"
#include "dist/tier_policy.h"

namespace litespark::dist {

/// A way beside the usual one.
struct TierLink {
  Tier tier = Tier::kMulticast;
  std::unique_ptr<Link> link;
};

class TieredLink final : public Link {
 public:
  /// `usual` carries kSharded, everything that no other tier can, and every call between neighbours; `others` have its
  /// ranks. `policy` must be the same on all ranks whenever a call begins.
  TieredLink(std::unique_ptr<Link> usual, std::vector<TierLink> others, std::shared_ptr<const TierSwitch> policy);

  std::string name() const override { return usual_->name(); }
  int rank() const override { return usual_->rank(); }
  int size() const override { return usual_->size(); }
  void transfer(std::span<const Message> sent, std::span<const Message> received, Deadline deadline) override;
  bool must_carry(const CallLabel& label) const override;
  void announce_leave() noexcept override;
  void announce_failure(const std::string& why) noexcept override;
  std::optional<std::string> failure_of(int rank) override { return usual_->failure_of(rank); }
  std::vector<int> missed_ranks() override { return usual_->missed_ranks(); }
  void abort(const std::string& why) noexcept override;

 private:
  Link& link_for(std::span<const Message> sent, std::span<const Message> received);

  std::unique_ptr<Link> usual_;
  std::vector<TierLink> others_;
  std::shared_ptr<const TierSwitch> policy_;
};

}  // namespace litespark::dist
