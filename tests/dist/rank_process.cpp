// SPDX-License-Identifier: Apache-2.0
// One rank of a job of real processes: joins the rendezvous and runs conformance cases, or meets a fault.
//   rank_process ENGINE RANK SIZE HOST:PORT SECRET_FILE TASK
// ENGINE: gloo, or multicast (Gloo, and NORM for what is below 8 MiB and the same for all).
// TASK: conformance, faults, sums (a number of checked all-reduces), leave (one all-gather), both_ways (prints the
// seconds of one), or until something fails, of which it prints the error and exits by its code: endless (all-reduces
// one after another) or under_way (several calls at once).
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

#include "calls_under_way.h"
#include "communicator_conformance.h"
#include "core/error.h"
#include "dist/comm_call.h"
#include "dist/gloo/gloo_communicator.h"
#include "dist/rendezvous.h"
#include "dist/tiered_link.h"
#ifdef LITESPARK_HAS_NORM
#include "dist/norm/multicast_tier.h"
#endif

namespace litespark {
namespace {

struct RankProcess {
  std::string engine;
  dist::JobPlace place;
  std::unique_ptr<dist::RendezvousServer> server;
  std::unique_ptr<dist::Rendezvous> rendezvous;
  dist::Secret secret;
  int num_meshes = 0;

  std::unique_ptr<Communicator> communicator(double timeout_seconds) {
    GlooOptions options{.mesh = "mesh" + std::to_string(num_meshes++),
                        .communicator = {.timeout_seconds = timeout_seconds}};
#ifdef LITESPARK_HAS_NORM
    if (engine == "multicast") {
      const auto tier =
          std::make_shared<dist::MulticastTier>(dist::make_multicast_tier(*rendezvous, dist::in_seconds(60), 20));
      if (!tier->link) throw std::runtime_error("no multicast: " + tier->missing);
      options.wrap = [tier](std::unique_ptr<dist::Link> usual) -> std::unique_ptr<dist::Link> {
        const auto chosen = std::make_shared<dist::TierSwitch>();
        chosen->set(dist::TierPolicy({{8 << 20, dist::Tier::kMulticast}}));
        std::vector<dist::TierLink> others;
        others.push_back({.tier = dist::Tier::kMulticast, .link = std::move(tier->link)});
        return std::make_unique<dist::TieredLink>(std::move(usual), std::move(others), chosen);
      };
    }
#endif
    return make_gloo_communicator(*rendezvous, secret, options);
  }

  void run(const std::string& task) {
    const auto memory = test::make_host_memory();
    if (task == "conformance") {
      const auto world = communicator(60);
      for (const test::ConformanceCase& item : test::conformance_cases()) {
        test::run_named(item.name, [&] { item.run(*world, *memory); });
      }
    } else if (task == "faults") {
      for (const test::FaultCase& item : test::fault_cases()) {
        test::run_named(item.name, [&] { item.run(*communicator(test::kFaultTimeoutSeconds), *memory); });
      }
    } else if (task == "leave") {
      gather_and_leave(*communicator(10));
    } else if (task == "both_ways") {
      time_both_ways(*communicator(30));
    } else if (task == "sums") {
      checked_sums(*communicator(30));
    } else if (task == "under_way") {
      test::endless_calls_under_way(*communicator(5));
    } else {
      endless(*communicator(3));
    }
  }

  /// Whoever has all pieces leaves at once, also when his own are still on their way.
  void gather_and_leave(Communicator& world) {
    constexpr int64_t kPieceElements = 1 << 20;
    const int64_t elements = kPieceElements * world.size();
    std::vector<float> values(static_cast<size_t>(elements), -1.0f);
    const Tensor data{.data = values.data(), .dtype = DType::kF32, .shape = {elements}, .device = Device::kCpu};
    Tensor piece = data;
    piece.shape = {kPieceElements};
    piece.data = values.data() + world.rank() * kPieceElements;
    std::fill_n(static_cast<float*>(piece.data), kPieceElements, static_cast<float>(world.rank()));
    std::cout << "gathering" << std::endl;
    world.wait(world.all_gather(data, piece));
    for (int64_t i = 0; i < elements; ++i) {
      if (values[static_cast<size_t>(i)] != static_cast<float>(i / kPieceElements))
        throw std::runtime_error("a wrong piece");
    }
    std::cout << "all pieces are right" << std::endl;
  }

  /// Seconds that a rank takes to send 2 MiB and to receive as much; the median of some rounds.
  void time_both_ways(Communicator& world) {
    constexpr int64_t kPieceElements = 1 << 19;
    const int64_t elements = kPieceElements * world.size();
    std::vector<float> values(static_cast<size_t>(elements), 1.0f);
    const Tensor data{.data = values.data(), .dtype = DType::kF32, .shape = {elements}, .device = Device::kCpu};
    std::vector<double> seconds(7);
    for (double& round : seconds) {
      world.barrier();
      const auto start = std::chrono::steady_clock::now();
      world.wait(world.all_gather(data, dist::piece_of(data, world.rank(), world.size())));
      round = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    }
    std::sort(seconds.begin(), seconds.end());
    std::cout << seconds[seconds.size() / 2] << std::endl;
  }

  /// Integers, whose sum has one right answer in f32.
  void checked_sums(Communicator& world) {
    constexpr int64_t kElements = 100003;
    std::vector<float> values(kElements);
    const Tensor data{.data = values.data(), .dtype = DType::kF32, .shape = {kElements}, .device = Device::kCpu};
    const auto value = [](int64_t step, int rank, int64_t i) {
      return static_cast<float>((i * 7 + step * 31 + rank * 13) % 1009);
    };
    for (int64_t step = 1; step <= 20; ++step) {
      world.set_step(step);
      for (int64_t i = 0; i < kElements; ++i) values[static_cast<size_t>(i)] = value(step, world.rank(), i);
      world.wait(world.all_reduce(data, Reduction::kSum));
      for (int64_t i = 0; i < kElements; ++i) {
        float expected = 0;
        for (int rank = 0; rank < world.size(); ++rank) expected += value(step, rank, i);
        if (values[static_cast<size_t>(i)] != expected)
          throw std::runtime_error("a wrong sum in step " + std::to_string(step));
      }
      std::cout << "step " << step << std::endl;
    }
    world.barrier();
    std::cout << "all sums are right" << std::endl;
  }

  void endless(Communicator& world) {
    std::vector<float> values(1 << 20, 1.0f);
    const Tensor data{.data = values.data(), .dtype = DType::kF32, .shape = {1 << 20}, .device = Device::kCpu};
    for (int64_t step = 1;; ++step) {
      world.set_step(step);
      world.wait(world.all_reduce(data, Reduction::kMax));
      // The test counts these lines, and strikes when it has seen enough.
      std::cout << "step " << step << std::endl;
    }
  }
};

int run(char** argv) {
  const dist::JobPlace place{.job = "test", .rank = std::atoi(argv[2]), .size = std::atoi(argv[3])};
  const dist::Secret secret = dist::Secret::from_file(argv[5]);
  const std::string address = argv[4];
  const std::string host = address.substr(0, address.rfind(':'));
  const int port = std::stoi(address.substr(host.size() + 1));
  RankProcess process{.engine = argv[1], .place = place, .server = nullptr, .rendezvous = nullptr, .secret = secret};
  const dist::RendezvousOptions options{.join_seconds = 60, .heartbeat_seconds = 60};
  if (place.rank == 0) {
    process.server =
        std::make_unique<dist::RendezvousServer>(place, dist::JobFacts{}, secret, dist::listen_on(host, port), options);
  }
  process.rendezvous =
      std::make_unique<dist::Rendezvous>(dist::RendezvousAddress{host, port}, place, dist::JobFacts{}, secret, options);
  process.run(argv[6]);
  return 0;
}

}  // namespace
}  // namespace litespark

int main(int argc, char** argv) {
  if (argc != 7) return 2;
  std::signal(SIGPIPE, SIG_IGN);
  try {
    return litespark::run(argv);
  } catch (const litespark::Error& error) {
    std::cout << "error: " << error.what() << std::endl;
    return static_cast<int>(error.exit_code());
  } catch (const std::exception& error) {
    std::cout << "error: " << error.what() << std::endl;
    return 1;
  }
}
