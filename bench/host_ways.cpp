// SPDX-License-Identifier: Apache-2.0
// One rank of a job on several hosts that times all-reduces by every way between hosts; host_ways.py makes the hosts.
//   bench_host_ways tiers|levels RANK SIZE HOST:PORT SECRET_FILE ROUNDS MOST_BYTES
// tiers: sharded, multicast, and what `auto` takes, in turns within rounds. levels: flat and hierarchical.
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "core/error.h"
#include "dist/gloo/gloo_communicator.h"
#include "dist/hierarchical_communicator.h"
#include "dist/norm/multicast_tier.h"
#include "dist/tier_measurement.h"
#include "dist/tiered_link.h"
#include "way_timer.h"

namespace litespark {
namespace {

struct Job {
  dist::JobPlace place;
  std::unique_ptr<dist::RendezvousServer> server;
  std::unique_ptr<dist::Rendezvous> rendezvous;
  dist::Secret secret;
  int rounds;
  int64_t most_bytes;

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
    if (place.rank == 0) std::printf("all-gathers reach %.2f Gbit/s\n", 8e-9 * (1 << 20) / gather);
    time_tiers(*world, *chosen, present, rounds, most_bytes);
  }

  void run_levels() const {
    const auto flat = make_gloo_communicator(*rendezvous, secret, {});
    const int host = dist::host_number(*rendezvous, dist::in_seconds(60));
    const Hierarchy levels = make_hierarchical(flat->split(0), {.host = host});
    if (place.rank == 0) std::printf("%s\n", levels.layout.c_str());
    time_sizes(*flat, {{"flat", [] {}, flat.get()}, {"hierarchical", [] {}, levels.communicator.get()}}, rounds,
               most_bytes);
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
