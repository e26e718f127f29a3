// SPDX-License-Identifier: Apache-2.0
// One rank of a job of real processes: joins the rendezvous and runs conformance cases, or meets a fault.
//   rank_process ENGINE RANK SIZE PORT SECRET_FILE TASK
// TASK: conformance, faults, or endless (all-reduces until something fails, then prints the error and exits by its
// code).
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <iostream>
#include <string>

#include "communicator_conformance.h"
#include "core/error.h"
#include "dist/gloo/gloo_communicator.h"
#include "dist/rendezvous.h"

namespace litespark {
namespace {

struct RankProcess {
  dist::JobPlace place;
  std::unique_ptr<dist::RendezvousServer> server;
  std::unique_ptr<dist::Rendezvous> rendezvous;
  dist::Secret secret;
  int num_meshes = 0;

  std::unique_ptr<Communicator> communicator(double timeout_seconds) {
    GlooOptions options{.mesh = "mesh" + std::to_string(num_meshes++),
                        .communicator = {.timeout_seconds = timeout_seconds}};
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
    } else {
      endless(*communicator(3));
    }
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
  const int port = std::atoi(argv[4]);
  RankProcess process{.place = place, .server = nullptr, .rendezvous = nullptr, .secret = secret};
  const dist::RendezvousOptions options{.join_seconds = 60, .heartbeat_seconds = 60};
  if (place.rank == 0) {
    process.server = std::make_unique<dist::RendezvousServer>(place, dist::JobFacts{}, secret,
                                                              dist::listen_on("127.0.0.1", port), options);
  }
  process.rendezvous = std::make_unique<dist::Rendezvous>(dist::RendezvousAddress{"127.0.0.1", port}, place,
                                                          dist::JobFacts{}, secret, options);
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
