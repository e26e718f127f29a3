// SPDX-License-Identifier: Apache-2.0
#include "dist/tiered_link.h"

#include <algorithm>
#include <utility>

namespace litespark::dist {
namespace {

/// Calls that every rank of a group makes with the same label, and so with the same size.
bool is_collective(CallKind kind) {
  return kind == CallKind::kAllReduce || kind == CallKind::kReduceScatter || kind == CallKind::kAllGather;
}

int64_t bytes_of(const CallLabel& label) {
  int64_t bytes = dtype_bytes(label.dtype);
  for (size_t i = 0; i < std::min<size_t>(label.shape_rank, label.extents.size()); ++i) bytes *= label.extents[i];
  return bytes;
}

}  // namespace

TieredLink::TieredLink(std::unique_ptr<Link> usual, std::vector<TierLink> others,
                       std::shared_ptr<const TierSwitch> policy)
    : usual_(std::move(usual)), others_(std::move(others)), policy_(std::move(policy)) {}

Link& TieredLink::link_for(std::span<const Message> sent, std::span<const Message> received) {
  if (sent.empty() || received.empty() || !is_collective(sent.front().label.kind)) return *usual_;
  const Tier tier = policy_->tier(bytes_of(sent.front().label));
  if (tier == Tier::kMulticast && !sent.front().is_for_all) return *usual_;
  for (const TierLink& other : others_) {
    if (other.tier == tier) return *other.link;
  }
  return *usual_;
}

void TieredLink::transfer(std::span<const Message> sent, std::span<const Message> received, Deadline deadline) {
  link_for(sent, received).transfer(sent, received, deadline);
}

bool TieredLink::must_carry(const CallLabel& label) const {
  if (!is_collective(label.kind)) return false;
  const Tier tier = policy_->tier(bytes_of(label));
  return std::any_of(others_.begin(), others_.end(), [&](const TierLink& other) { return other.tier == tier; });
}

void TieredLink::announce_leave() noexcept {
  for (const TierLink& other : others_) other.link->announce_leave();
  usual_->announce_leave();
}

void TieredLink::announce_failure(const std::string& why) noexcept {
  for (const TierLink& other : others_) other.link->announce_failure(why);
  usual_->announce_failure(why);
}

void TieredLink::abort(const std::string& why) noexcept {
  for (const TierLink& other : others_) other.link->abort(why);
  usual_->abort(why);
}

}  // namespace litespark::dist
