// SPDX-License-Identifier: Apache-2.0
#include "host_tiers.h"

#include <utility>
#include <vector>

#include "dist/tier_measurement.h"

#ifdef LITESPARK_HAS_NORM
#include "dist/norm/multicast_tier.h"
#endif

namespace litespark::cli {
namespace {

using dist::Tier;
using dist::TierPolicy;

bool stand_on_several_hosts(dist::Rendezvous& rendezvous, dist::Clock::time_point deadline) {
  const auto key = [](int rank) { return "host/" + std::to_string(rank); };
  const std::string own = std::to_string(dist::host_number(rendezvous, deadline));
  rendezvous.set(key(rendezvous.place().rank), own);
  for (int rank = 0; rank < rendezvous.place().size; ++rank) {
    if (rendezvous.get(key(rank), deadline) != rendezvous.get(key(0), deadline)) return true;
  }
  return false;
}

}  // namespace

HostTiers::HostTiers(dist::Rendezvous& rendezvous, const TierRequest& request, double timeout_seconds)
    : request_(request) {
  if (request.choice == TierRequest::Choice::kSharded) return;
  const auto deadline = dist::in_seconds(timeout_seconds);
  are_several_hosts_ = stand_on_several_hosts(rendezvous, deadline);
  if (!are_several_hosts_) return;
#ifdef LITESPARK_HAS_NORM
  dist::MulticastTier tier = dist::make_multicast_tier(rendezvous, deadline);
  missing_ = tier.missing;
  multicast_ = tier.link.get();
  if (tier.link) others_.push_back({.tier = Tier::kMulticast, .link = std::move(tier.link)});
#else
  missing_ = "this build has no NORM";
#endif
}

std::unique_ptr<dist::Link> HostTiers::wrap(std::unique_ptr<dist::Link> usual) {
  if (others_.empty()) return usual;
  return std::make_unique<dist::TieredLink>(std::move(usual), std::move(others_), chosen_);
}

std::string HostTiers::settle(Communicator& world, Communicator& between) {
  if (!are_several_hosts_) return {};
  std::vector<Tier> present = {Tier::kSharded};
  if (multicast_ != nullptr) present.push_back(Tier::kMulticast);
#ifdef LITESPARK_HAS_NORM
  if (multicast_ != nullptr) {
    constexpr int64_t kGatheredBytes = int64_t{1} << 20;
    constexpr double kRateShare = 0.9;  // of what the link was seen to carry: nothing slows a sender down later
    const double seconds = dist::sharded_gather_seconds(world, between, *chosen_, kGatheredBytes);
    multicast_->set_rate(kRateShare * 8 * static_cast<double>(kGatheredBytes) / between.size() / seconds);
  }
#endif
  std::string text;
  if (request_.choice == TierRequest::Choice::kThresholds) {
    chosen_->set(TierPolicy({{request_.multicast_below, Tier::kMulticast}, {request_.one_sided_below, Tier::kOneSided}})
                     .among(present));
    text = "tiers between hosts: " + chosen_->policy().text() + "; one-sided: Gloo has none";
  } else {
    if (present.size() > 1) {
      const auto times = dist::measure_tiers(world, between, *chosen_, present);
      chosen_->set(dist::policy_from(times));
      text = dist::tier_table(times, chosen_->policy());
    }
    text += "tiers between hosts, as measured: " + chosen_->policy().text();
  }
  if (!missing_.empty()) text += "; no multicast: " + missing_;
  return text;
}

}  // namespace litespark::cli
