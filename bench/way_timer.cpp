// SPDX-License-Identifier: Apache-2.0
#include "way_timer.h"

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "dist/tier_measurement.h"

namespace litespark {
namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// Seconds by variant and round, of the slowest rank.
std::vector<std::vector<double>> time_in_turns(Communicator& world, const std::vector<Variant>& variants, int rounds,
                                               int64_t bytes) {
  std::vector<float> values(static_cast<size_t>(bytes) / sizeof(float));
  const Tensor data = {.data = values.data(),
                       .dtype = DType::kF32,
                       .shape = {static_cast<int64_t>(values.size())},
                       .device = Device::kCpu};
  const size_t count = variants.size();
  std::vector<double> seconds(static_cast<size_t>(rounds) * count);
  for (int round = -2; round < rounds; ++round) {
    for (size_t turn = 0; turn < count; ++turn) {
      const auto number = static_cast<size_t>(round + 2);
      const size_t step = number % 2 == 0 ? turn : count - 1 - turn;  // what a call finds depends on the one before it
      const size_t which = (step + number / 2) % count;
      world.barrier();
      variants[which].prepare();
      const double start = now();
      variants[which].communicator->wait(variants[which].communicator->all_reduce(data, Reduction::kSum));
      if (round >= 0) seconds[static_cast<size_t>(round) * count + which] = now() - start;
    }
  }
  world.barrier();
  world.wait(world.all_reduce({.data = seconds.data(),
                               .dtype = DType::kF64,
                               .shape = {static_cast<int64_t>(seconds.size())},
                               .device = Device::kCpu},
                              Reduction::kMax));
  std::vector<std::vector<double>> result(count);
  for (size_t i = 0; i < seconds.size(); ++i) result[i % count].push_back(seconds[i]);
  return result;
}

/// Medians in ms, and the last variant against the best of the others within rounds.
void print_row(int64_t bytes, const std::vector<std::vector<double>>& seconds) {
  size_t best = 0;
  for (size_t i = 0; i + 1 < seconds.size(); ++i) {
    if (median(seconds[i]) < median(seconds[best])) best = i;
  }
  std::vector<double> ratios;
  for (size_t round = 0; round < seconds[best].size(); ++round)
    ratios.push_back(seconds.back()[round] / seconds[best][round]);
  std::printf("%11lld", static_cast<long long>(bytes));
  for (const auto& one : seconds) std::printf("  %12.3f", median(one) * 1e3);
  std::printf("  %10.3f\n", median(ratios));
}

}  // namespace

void time_sizes(Communicator& world, const std::vector<Variant>& variants, int rounds, int64_t most_bytes) {
  if (world.rank() == 0) {
    std::printf("      bytes");
    for (const Variant& variant : variants) std::printf("  %12s", variant.name.c_str());
    std::printf("  %10s\n", "last/best");
  }
  for (int64_t bytes = 4096; bytes <= most_bytes; bytes *= 4) {
    const auto seconds = time_in_turns(world, variants, rounds, bytes);
    if (world.rank() == 0) print_row(bytes, seconds);
  }
}

void time_tiers(Communicator& world, dist::TierSwitch& chosen, std::span<const dist::Tier> present, int rounds,
                int64_t most_bytes) {
  const double start = now();
  const auto times = dist::measure_tiers(world, world, chosen, present);
  const dist::TierPolicy picked = dist::policy_from(times);
  if (world.rank() == 0) std::printf("auto, measured in %.2f s: %s\n", now() - start, picked.text().c_str());
  const auto always = [&](const dist::TierPolicy& policy) { return [policy, &chosen] { chosen.set(policy); }; };
  std::vector<Variant> variants;
  for (const dist::Tier tier : present) {
    variants.push_back(
        {std::string(dist::tier_name(tier)), always(dist::TierPolicy({{int64_t{1} << 40, tier}})), &world});
  }
  variants.push_back({"auto", always(picked), &world});
  time_sizes(world, variants, rounds, most_bytes);
}

}  // namespace litespark
