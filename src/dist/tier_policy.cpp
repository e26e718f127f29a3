// SPDX-License-Identifier: Apache-2.0
#include "dist/tier_policy.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "core/error.h"

namespace litespark::dist {
namespace {

constexpr double kWorthwhile = 0.95;

/// The value that `share` of the others do not exceed.
double percentile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  const auto last = static_cast<double>(values.size() - 1);
  return values[static_cast<size_t>(std::ceil(last * share))];
}

std::string megabytes(int64_t bytes) {
  std::array<char, 32> text = {};
  const double value = static_cast<double>(bytes);
  const int length = value < 1e5 ? std::snprintf(text.data(), text.size(), "%.1f kB", value / 1e3)
                                 : std::snprintf(text.data(), text.size(), "%.1f MB", value / 1e6);
  return {text.data(), static_cast<size_t>(length)};
}

Tier best_tier(const TierTimes& times) {
  Tier best = Tier::kSharded;
  double least = kWorthwhile;
  for (const Tier tier : {Tier::kMulticast, Tier::kOneSided}) {
    const auto& seconds = times.seconds[static_cast<size_t>(tier)];
    if (seconds.empty() || ratio_to_sharded(times, tier) > least) continue;
    if (percentile(seconds, 0.9) > percentile(times.seconds[static_cast<size_t>(Tier::kSharded)], 0.9)) continue;
    best = tier;
    least = ratio_to_sharded(times, tier);
  }
  return best;
}

}  // namespace

std::string_view tier_name(Tier tier) {
  switch (tier) {
    case Tier::kSharded: return "sharded";
    case Tier::kMulticast: return "multicast";
    case Tier::kOneSided: return "one-sided";
  }
  return "unknown";
}

TierPolicy::TierPolicy(const std::vector<TierRange>& ranges) {
  int64_t before = 0;
  for (const TierRange& range : ranges) {
    if (range.below_bytes <= before)
      throw InternalError("tiers", "ranges do not ascend", range.below_bytes, "more than " + std::to_string(before));
    before = range.below_bytes;
    if (!ranges_.empty() && ranges_.back().tier == range.tier) {
      ranges_.back() = range;
    } else {
      ranges_.push_back(range);
    }
  }
  if (ranges_.empty() || ranges_.back().tier != Tier::kSharded) ranges_.push_back({});
  ranges_.back().below_bytes = std::numeric_limits<int64_t>::max();
}

Tier TierPolicy::tier(int64_t bytes) const {
  const auto above = [&](const TierRange& range) { return bytes < range.below_bytes; };
  const auto found = std::find_if(ranges_.begin(), ranges_.end(), above);
  return found == ranges_.end() ? Tier::kSharded : found->tier;
}

TierPolicy TierPolicy::among(std::span<const Tier> present) const {
  std::vector<TierRange> ranges = ranges_;
  for (TierRange& range : ranges) {
    if (std::find(present.begin(), present.end(), range.tier) == present.end()) range.tier = Tier::kSharded;
  }
  return TierPolicy(ranges);
}

std::string TierPolicy::text() const {
  if (ranges_.size() == 1) return std::string(tier_name(ranges_.front().tier));
  std::string text;
  for (size_t i = 0; i + 1 < ranges_.size(); ++i)
    text += std::string(tier_name(ranges_[i].tier)) + " below " + megabytes(ranges_[i].below_bytes) + ", ";
  return text + std::string(tier_name(ranges_.back().tier)) + " from there on";
}

double ratio_to_sharded(const TierTimes& times, Tier tier) {
  const auto& sharded = times.seconds[static_cast<size_t>(Tier::kSharded)];
  const auto& seconds = times.seconds[static_cast<size_t>(tier)];
  if (seconds.empty() || sharded.size() != seconds.size()) return std::numeric_limits<double>::infinity();
  std::vector<double> ratios;
  for (size_t round = 0; round < seconds.size(); ++round) ratios.push_back(seconds[round] / sharded[round]);
  return percentile(ratios, 0.5);
}

TierPolicy policy_from(std::span<const TierTimes> times) {
  std::vector<TierRange> ranges;
  for (const TierTimes& size : times) ranges.push_back({.below_bytes = size.bytes * 2, .tier = best_tier(size)});
  return TierPolicy(ranges);
}

}  // namespace litespark::dist
