// SPDX-License-Identifier: Apache-2.0
// One rank of a job under mpirun: conformance cases, faults, or calls until something fails: all-reduces one after
// another (endless) or several at once (under_way).
//   litespark_mpi_rank TASK [windows]
// windows: what is below 10 MB is written straight into the other ranks' memory.
#include <mpi.h>
#include <unistd.h>

#include <chrono>
#include <iostream>
#include <string>
#include <thread>

#include "calls_under_way.h"
#include "communicator_conformance.h"
#include "core/error.h"
#include "dist/mpi/mpi_communicator.h"

namespace litespark {
namespace {

void under_way(Communicator& world) {
  world.barrier();
  std::cout << world.rank() << " " << getpid() << std::endl;
  try {
    test::endless_calls_under_way(world);
  } catch (const CommError& error) {
    std::cout << "error: " << error.what() << std::endl;
    // mpirun ends everybody when the first one has ended.
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    throw;
  }
}

void endless(Communicator& world) {
  std::vector<float> values(1 << 20, 1.0f);
  const Tensor data{.data = values.data(), .dtype = DType::kF32, .shape = {1 << 20}, .device = Device::kCpu};
  world.wait(world.all_reduce(data, Reduction::kMax));
  std::cout << world.rank() << " " << getpid() << std::endl;
  for (int64_t step = 1;; ++step) {
    world.set_step(step);
    world.wait(world.all_reduce(data, Reduction::kMax));
  }
}

int run(const std::string& task, bool has_windows) {
  const MpiSession session;
  const auto make = [&](double timeout_seconds) {
    std::shared_ptr<dist::TierSwitch> chosen;
    if (has_windows) {
      chosen = std::make_shared<dist::TierSwitch>();
      chosen->set(dist::TierPolicy({{10000000, dist::Tier::kOneSided}}));
    }
    return make_mpi_communicator(session, {.timeout_seconds = timeout_seconds}, 300, chosen);
  };
  const auto memory = test::make_host_memory();
  if (task == "conformance") {
    const auto world = make(60);
    for (const test::ConformanceCase& item : test::conformance_cases())
      test::run_named(item.name, [&] { item.run(*world, *memory); });
  } else if (task == "faults") {
    for (const test::FaultCase& item : test::fault_cases()) {
      // MPI connects its ranks for good: that one has no more to say is no closed connection here.
      if (item.name == "ARankThatLeavesIsNamed") continue;
      test::run_named(item.name, [&] { item.run(*make(test::kFaultTimeoutSeconds), *memory); });
    }
    std::cout << "all faults were found" << std::endl;
    // After a failure the session does not finalize, and mpirun ends everybody when the first rank leaves without: here
    // all are still there.
    MPI_Finalize();
  } else if (task == "under_way") {
    under_way(*make(3));
  } else {
    endless(*make(3));
  }
  return 0;
}

}  // namespace
}  // namespace litespark

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  try {
    return litespark::run(argv[1], argc > 2);
  } catch (const litespark::Error& error) {
    std::cout << "error: " << error.what() << std::endl;
    return static_cast<int>(error.exit_code());
  } catch (const std::exception& error) {
    std::cout << "error: " << error.what() << std::endl;
    return 1;
  }
}
