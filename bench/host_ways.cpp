// SPDX-License-Identifier: Apache-2.0
// One rank of a job on several hosts that times all-reduces by every way between hosts; host_ways.py makes the hosts.
//   bench_host_ways tiers|levels RANK SIZE HOST:PORT SECRET_FILE ROUNDS MOST_BYTES
// tiers: sharded, multicast, and what `auto` takes, in turns within rounds. levels: flat and hierarchical.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <string>
#include <vector>

#include "core/error.h"
#include "dist/gloo/gloo_communicator.h"
#include "dist/hierarchical_communicator.h"
#include "dist/norm/multicast_tier.h"
#include "dist/tier_measurement.h"
#include "dist/tiered_link.h"

namespace litespark {
namespace {

struct Variant {
  std::string name;
  std::function<void()> prepare;
  Communicator* communicator;
};

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
      const size_t which = (turn + static_cast<size_t>(round + 2)) % count;
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

struct Job {
  dist::JobPlace place;
  std::unique_ptr<dist::RendezvousServer> server;
  std::unique_ptr<dist::Rendezvous> rendezvous;
  dist::Secret secret;
  int rounds;
  int64_t most_bytes;

  void run_sizes(Communicator& world, const std::vector<Variant>& variants) const {
    if (place.rank == 0) {
      std::printf("      bytes");
      for (const Variant& variant : variants) std::printf("  %12s", variant.name.c_str());
      std::printf("  %10s\n", "last/best");
    }
    for (int64_t bytes = 4096; bytes <= most_bytes; bytes *= 4) {
      const auto seconds = time_in_turns(world, variants, rounds, bytes);
      if (place.rank == 0) print_row(bytes, seconds);
    }
  }

  void run_tiers() const {
    using dist::Tier;
    const auto chosen = std::make_shared<dist::TierSwitch>();
    dist::MulticastTier tier = dist::make_multicast_tier(*rendezvous, dist::in_seconds(60));
    if (!tier.link) throw CommError("multicast", tier.missing);
    dist::NormLink* const multicast = tier.link.get();
    const auto world = make_gloo_communicator(*rendezvous, secret, {.wrap = [&](std::unique_ptr<dist::Link> usual) {
      std::vector<dist::TierLink> others;
      others.push_back({.tier = Tier::kMulticast, .link = std::move(tier.link)});
      return std::make_unique<dist::TieredLink>(std::move(usual), std::move(others), chosen);
    }});
    const double gather = dist::sharded_gather_seconds(*world, *world, *chosen, 1 << 20);
    multicast->set_rate(0.9 * 8 * (1 << 20) / world->size() / gather);
    const Tier present[] = {Tier::kSharded, Tier::kMulticast};
    const double start = now();
    const auto times = dist::measure_tiers(*world, *world, *chosen, present);
    const dist::TierPolicy picked = dist::policy_from(times);
    if (place.rank == 0) {
      std::printf("link %.2f Gbit/s in all-gathers; auto, measured in %.2f s: %s\n", 8e-9 * (1 << 20) / gather,
                  now() - start, picked.text().c_str());
    }
    const auto always = [&](const dist::TierPolicy& policy) { return [=] { chosen->set(policy); }; };
    run_sizes(*world, {{"sharded", always(dist::TierPolicy()), world.get()},
                       {"multicast", always(dist::TierPolicy({{int64_t{1} << 40, Tier::kMulticast}})), world.get()},
                       {"auto", always(picked), world.get()}});
  }

  void run_levels() const {
    const auto flat = make_gloo_communicator(*rendezvous, secret, {});
    const int host = dist::host_number(*rendezvous, dist::in_seconds(60));
    const Hierarchy levels = make_hierarchical(flat->split(0), {.host = host});
    if (place.rank == 0) std::printf("%s\n", levels.layout.c_str());
    run_sizes(*flat, {{"flat", [] {}, flat.get()}, {"hierarchical", [] {}, levels.communicator.get()}});
  }
};

void run(char** argv) {
  const dist::JobPlace place{.job = "bench", .rank = std::atoi(argv[2]), .size = std::atoi(argv[3])};
  const std::string address = argv[4];
  const std::string host = address.substr(0, address.rfind(':'));
  const int port = std::stoi(address.substr(host.size() + 1));
  Job job{.place = place,
          .server = nullptr,
          .rendezvous = nullptr,
          .secret = dist::Secret::from_file(argv[5]),
          .rounds = std::atoi(argv[6]),
          .most_bytes = std::atoll(argv[7])};
  if (place.rank == 0) {
    job.server =
        std::make_unique<dist::RendezvousServer>(place, dist::JobFacts{}, job.secret, dist::listen_on(host, port));
  }
  job.rendezvous =
      std::make_unique<dist::Rendezvous>(dist::RendezvousAddress{host, port}, place, dist::JobFacts{}, job.secret);
  std::string(argv[1]) == "tiers" ? job.run_tiers() : job.run_levels();
}

}  // namespace
}  // namespace litespark

int main(int argc, char** argv) {
  if (argc != 8) return 2;
  try {
    litespark::run(argv);
    return 0;
  } catch (const std::exception& error) {
    std::cerr << error.what() << std::endl;
    return 1;
  }
}
