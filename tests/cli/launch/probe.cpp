// SPDX-License-Identifier: Apache-2.0
// A small program that launches itself: what its ranks do is their argument. Tests watch it from outside.
//   litespark_launch_probe RANKS TASK
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <string>
#include <thread>

#include "launch.h"
#include "launch_dist.h"

namespace litespark::cli {
namespace {

volatile std::sig_atomic_t signal_came = 0;

/// Ends as if it had saved; a second rank would take longer over it.
int wait_for_signal(int rank) {
  std::signal(SIGTERM, [](int) { signal_came = 1; });
  std::cout << "ready" << std::endl;
  while (signal_came == 0) usleep(10000);
  if (rank == 0) std::this_thread::sleep_for(std::chrono::seconds(3));
  std::cout << "saved" << std::endl;
  return static_cast<int>(ExitCode::kStopped);
}

int sum_over_ranks(const dist::LaunchPlace& place) {
  const auto context = open_dist({.place = place, .facts = {{"config", "same"}}, .timeout_seconds = 60});
  std::array<float, 4> values;
  values.fill(static_cast<float>(place.rank + 1));
  const Tensor data{.data = values.data(), .dtype = DType::kF32, .shape = {4}, .device = Device::kCpu};
  Communicator& communicator = context->communicator();
  communicator.wait(communicator.all_reduce(data, Reduction::kSum));
  std::cout << "sum " << values[3] << std::endl;
  communicator.barrier();
  return 0;
}

int run_rank(const dist::LaunchPlace& place, const std::string& task) {
  follow_launcher();
  if (task == "hello") {
    std::cout << "hello " << place.rank << " of " << place.size << ", device " << std::getenv("CUDA_VISIBLE_DEVICES")
              << "\nno end of line";
    std::cerr << "aside" << std::endl;
    return 0;
  }
  if (task == "second_fails") {
    if (place.rank == 1) return static_cast<int>(ExitCode::kInputFile);
    if (place.rank == 0) return static_cast<int>(ExitCode::kPeerLost);  // it noticed, and is quicker to say so
    pause();
  }
  if (task == "second_dies" && place.rank == 1) raise(SIGKILL);
  if (task == "second_dies") pause();
  if (task == "stop") return wait_for_signal(place.rank);
  if (task == "stop_and_lose") {
    const int code = wait_for_signal(1);
    return place.rank == 0 ? code : static_cast<int>(ExitCode::kPeerLost);
  }
  if (task == "stop_and_die") {
    const int code = wait_for_signal(1);
    if (place.rank == 1) raise(SIGKILL);
    return code;
  }
  if (task == "sum") return sum_over_ranks(place);
  if (task == "differ") {
    open_dist({.place = place, .facts = {{"optim.lr", place.rank == 1 ? "0.1" : "0.2"}}, .timeout_seconds = 60});
    return 0;
  }
  std::cout << getpid() << std::endl;  // "linger"
  while (true) pause();
}

int run(char** argv) {
  const auto place = dist::find_launch(dist::process_environment());
  if (place) return run_rank(*place, argv[2]);
  return static_cast<int>(launch_ranks(std::atoi(argv[1]), {argv[1], argv[2]}, true));
}

}  // namespace
}  // namespace litespark::cli

int main(int argc, char** argv) {
  if (argc != 3) return 99;
  std::signal(SIGPIPE, SIG_IGN);
  try {
    return litespark::cli::run(argv);
  } catch (const litespark::Error& error) {
    std::cerr << error.what() << "\n";
    return static_cast<int>(error.exit_code());
  }
}
