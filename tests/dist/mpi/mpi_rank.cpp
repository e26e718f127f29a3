// SPDX-License-Identifier: Apache-2.0
// One rank of a job under mpirun: conformance cases, faults, or endless all-reduces until something fails.
//   litespark_mpi_rank TASK
#include <mpi.h>
#include <unistd.h>

#include <iostream>
#include <string>

#include "communicator_conformance.h"
#include "core/error.h"
#include "dist/mpi/mpi_communicator.h"

namespace litespark {
namespace {

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

int run(const std::string& task) {
  const MpiSession session;
  const auto memory = test::make_host_memory();
  if (task == "conformance") {
    const auto world = make_mpi_communicator(session, {.timeout_seconds = 60});
    for (const test::ConformanceCase& item : test::conformance_cases())
      test::run_named(item.name, [&] { item.run(*world, *memory); });
  } else if (task == "faults") {
    for (const test::FaultCase& item : test::fault_cases()) {
      // MPI connects its ranks for good: that one has no more to say is no closed connection here.
      if (item.name == "ARankThatLeavesIsNamed") continue;
      test::run_named(item.name, [&] {
        item.run(*make_mpi_communicator(session, {.timeout_seconds = test::kFaultTimeoutSeconds}), *memory);
      });
    }
    std::cout << "all faults were found" << std::endl;
    // After a failure the session does not finalize, and mpirun ends everybody when the first rank leaves without: here
    // all are still there.
    MPI_Finalize();
  } else {
    endless(*make_mpi_communicator(session, {.timeout_seconds = 3}));
  }
  return 0;
}

}  // namespace
}  // namespace litespark

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  try {
    return litespark::run(argv[1]);
  } catch (const litespark::Error& error) {
    std::cout << "error: " << error.what() << std::endl;
    return static_cast<int>(error.exit_code());
  } catch (const std::exception& error) {
    std::cout << "error: " << error.what() << std::endl;
    return 1;
  }
}
