// SPDX-License-Identifier: Apache-2.0
// One rank of a job under mpirun: conformance cases, faults, or calls until something fails: all-reduces one after
// another (endless) or several at once (under_way).
//   litespark_mpi_rank [windows] TASK [FOLDER]
// windows: what is below 10 MB is written straight into the other ranks' memory. FOLDER: an empty one for under_way,
// whose ranks leave a file each when they have said all.
#include <mpi.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

#include "calls_under_way.h"
#include "communicator_conformance.h"
#include "core/error.h"
#include "dist/mpi/mpi_communicator.h"

namespace litespark {
namespace {

/// So that all have spoken: mpirun ends everybody when the first one has ended. Waits 20 s at most.
void meet_at_the_end(const Communicator& world, const std::filesystem::path& folder) {
  const std::ofstream own(folder / std::to_string(world.rank()));
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  const auto is_there = [&](int rank) { return std::filesystem::exists(folder / std::to_string(rank)); };
  for (int rank = 0; rank < world.size(); ++rank) {
    while (!is_there(rank) && std::chrono::steady_clock::now() < deadline)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

void under_way(Communicator& world, const std::filesystem::path& folder) {
  world.barrier();
  std::cout << world.rank() << " " << getpid() << std::endl;
  try {
    test::endless_calls_under_way(world);
  } catch (const CommError& error) {
    std::cout << "error: " << error.what() << std::endl;
    meet_at_the_end(world, folder);
    // What they said is on its way through mpirun.
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

int run(bool has_windows, const std::string& task, const std::string& folder) {
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
    under_way(*make(3), folder);
  } else {
    endless(*make(3));
  }
  return 0;
}

}  // namespace
}  // namespace litespark

int main(int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  const bool has_windows = !words.empty() && words.front() == "windows";
  if (has_windows) words.erase(words.begin());
  if (words.empty()) return 2;
  try {
    return litespark::run(has_windows, words[0], words.size() > 1 ? words[1] : "");
  } catch (const litespark::Error& error) {
    std::cout << "error: " << error.what() << std::endl;
    return static_cast<int>(error.exit_code());
  } catch (const std::exception& error) {
    std::cout << "error: " << error.what() << std::endl;
    return 1;
  }
}
