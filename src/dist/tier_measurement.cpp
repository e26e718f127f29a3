// SPDX-License-Identifier: Apache-2.0
#include "dist/tier_measurement.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>

namespace litespark::dist {
namespace {

constexpr size_t kWarmups = 3;
constexpr int kMostRounds = 101;
constexpr int kGatherRounds = 5;

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Each number becomes the largest that a rank has.
void take_largest(Communicator& world, std::vector<double>& numbers) {
  world.wait(world.all_reduce({.data = numbers.data(),
                               .dtype = DType::kF64,
                               .shape = {static_cast<int64_t>(numbers.size())},
                               .device = Device::kCpu},
                              Reduction::kMax));
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

Tensor tensor_of(std::vector<float>& values) {
  return {.data = values.data(),
          .dtype = DType::kF32,
          .shape = {static_cast<int64_t>(values.size())},
          .device = Device::kCpu};
}

/// One round: seconds of each of `present`, in its order. Another one begins each round and every other round runs
/// backwards, since what a call finds depends on the one before it.
void run_round(Communicator& world, Communicator& between, TierSwitch& chosen, std::span<const Tier> present,
               const Tensor& data, size_t round, std::span<double> seconds) {
  for (size_t turn = 0; turn < present.size(); ++turn) {
    const size_t step = round % 2 == 0 ? turn : present.size() - 1 - turn;
    const size_t which = (step + round / 2) % present.size();
    world.barrier();
    chosen.set(TierPolicy({{data.bytes() + 1, present[which]}}));
    const double start = now();
    between.wait(between.all_reduce(data, Reduction::kSum));
    seconds[which] = now() - start;
  }
}

TierTimes measure_size(Communicator& world, Communicator& between, TierSwitch& chosen, std::span<const Tier> present,
                       const TierMeasurement& options, int64_t bytes) {
  std::vector<float> values(static_cast<size_t>(bytes) / sizeof(float));
  const Tensor data = tensor_of(values);
  const size_t count = present.size();
  std::vector<double> warmup(count + 1);
  for (size_t round = 0; round < kWarmups; ++round) {
    const double start = now();
    run_round(world, between, chosen, present, data, round, std::span(warmup).first(count));
    warmup.back() = now() - start;
  }
  world.barrier();
  chosen.set(TierPolicy());
  take_largest(world, warmup);  // so that all make as many
  const auto wanted = static_cast<int>(options.size_seconds / std::max(warmup.back(), 1e-6));
  const auto rounds = static_cast<size_t>(std::max(options.rounds, std::min(wanted, kMostRounds)));
  std::vector<double> seconds(rounds * count);
  for (size_t round = 0; round < rounds; ++round)
    run_round(world, between, chosen, present, data, round, std::span(seconds).subspan(round * count, count));
  world.barrier();
  chosen.set(TierPolicy());
  take_largest(world, seconds);
  TierTimes times = {.bytes = bytes, .seconds = {}};
  for (size_t i = 0; i < seconds.size(); ++i)
    times.seconds[static_cast<size_t>(present[i % count])].push_back(seconds[i]);
  return times;
}

}  // namespace

std::vector<TierTimes> measure_tiers(Communicator& world, Communicator& between, TierSwitch& chosen,
                                     std::span<const Tier> present, const TierMeasurement& options) {
  const TierPolicy before = chosen.policy();
  chosen.set(TierPolicy());
  std::vector<TierTimes> times;
  double taken_before = 0;
  const double start = now();
  for (int64_t bytes = options.least_bytes; bytes <= options.most_bytes; bytes *= 4) {
    times.push_back(measure_size(world, between, chosen, present, options, bytes));
    chosen.set(TierPolicy());
    std::vector<double> taken = {now() - start};
    take_largest(world, taken);  // so that all stop at the same size
    if (taken.front() + 4 * (taken.front() - taken_before) > options.seconds) break;
    taken_before = taken.front();
  }
  world.barrier();
  chosen.set(before);
  return times;
}

double sharded_gather_seconds(Communicator& world, Communicator& between, TierSwitch& chosen, int64_t bytes) {
  const TierPolicy before = chosen.policy();
  chosen.set(TierPolicy());
  const auto piece = static_cast<size_t>(bytes) / sizeof(float) / static_cast<size_t>(between.size());
  std::vector<float> own(piece);
  std::vector<float> all(piece * static_cast<size_t>(between.size()));
  std::vector<double> seconds;
  for (int round = -1; round < kGatherRounds; ++round) {
    world.barrier();
    const double start = now();
    between.wait(between.all_gather(tensor_of(all), tensor_of(own)));
    if (round >= 0) seconds.push_back(now() - start);
  }
  world.barrier();
  take_largest(world, seconds);
  chosen.set(before);
  return median(seconds);
}

std::string tier_table(std::span<const TierTimes> times, const TierPolicy& policy) {
  std::string text = "      bytes";
  for (const Tier tier : {Tier::kSharded, Tier::kMulticast, Tier::kOneSided}) {
    std::array<char, 32> cell = {};
    std::snprintf(cell.data(), cell.size(), "  %9s", std::string(tier_name(tier)).c_str());
    text += cell.data();
  }
  text += "  taken (medians, ms)\n";
  for (const TierTimes& size : times) {
    std::array<char, 32> cell = {};
    std::snprintf(cell.data(), cell.size(), "%11lld", static_cast<long long>(size.bytes));
    text += cell.data();
    for (const auto& seconds : size.seconds) {
      if (seconds.empty()) {
        std::snprintf(cell.data(), cell.size(), "  %9s", "-");
      } else {
        std::snprintf(cell.data(), cell.size(), "  %9.3f", median(seconds) * 1e3);
      }
      text += cell.data();
    }
    text += "  " + std::string(tier_name(policy.tier(size.bytes))) + "\n";
  }
  return text;
}

}  // namespace litespark::dist
