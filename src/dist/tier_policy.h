// SPDX-License-Identifier: Apache-2.0
// Which way a call takes between hosts, by its size: a pure function, from fixed thresholds or from measured times.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace litespark::dist {

/// kSharded: pieces from rank to rank. kMulticast: where all get the same bytes, one packet for all of them. kOneSided:
/// written straight into the other ranks' memory.
enum class Tier : uint8_t { kSharded, kMulticast, kOneSided };
inline constexpr size_t kNumTiers = 3;
std::string_view tier_name(Tier tier);

struct TierRange {
  int64_t below_bytes = std::numeric_limits<int64_t>::max();
  Tier tier = Tier::kSharded;
};

class TierPolicy {
 public:
  /// Everything sharded.
  TierPolicy() : TierPolicy({TierRange{}}) {}
  /// `ranges` ascend; what is past the last one is sharded. Neighbours of one tier become one. Throws InternalError
  /// when they do not ascend.
  explicit TierPolicy(const std::vector<TierRange>& ranges);

  /// For a call whose whole tensor has so many bytes.
  Tier tier(int64_t bytes) const;
  /// The same with kSharded in the place of tiers that are not there.
  TierPolicy among(std::span<const Tier> present) const;
  /// "multicast below 1.0 MB, one-sided below 10.0 MB, sharded from there on".
  std::string text() const;
  const std::vector<TierRange>& ranges() const { return ranges_; }

 private:
  std::vector<TierRange> ranges_;
};

/// What one size took on each tier: the same rounds on all of them, one time a round (the slowest rank's). A tier that
/// was not measured has none.
struct TierTimes {
  int64_t bytes = 0;
  std::array<std::vector<double>, kNumTiers> seconds;
};

/// The median of time / sharded time within rounds: rounds differ by more than tiers do. 1 for kSharded, nullopt's
/// place is taken by infinity where nothing was measured.
double ratio_to_sharded(const TierTimes& times, Tier tier);

/// The policy that measured times ask for, sizes ascending: a tier takes a size from kSharded only when it is at least
/// 5 % faster in the median ratio and no slower in the 90th percentile. A size stands for those up to twice as large.
TierPolicy policy_from(std::span<const TierTimes> times);

/// The policy in force, shared by whoever chooses it and the link that follows it.
class TierSwitch {
 public:
  void set(TierPolicy policy) {
    const std::lock_guard lock(mutex_);
    policy_ = std::move(policy);
  }
  Tier tier(int64_t bytes) const {
    const std::lock_guard lock(mutex_);
    return policy_.tier(bytes);
  }
  TierPolicy policy() const {
    const std::lock_guard lock(mutex_);
    return policy_;
  }

 private:
  mutable std::mutex mutex_;
  TierPolicy policy_;
};

}  // namespace litespark::dist
