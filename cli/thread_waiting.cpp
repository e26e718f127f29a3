// SPDX-License-Identifier: Apache-2.0
#include "thread_waiting.h"

#include <sys/auxv.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>

namespace litespark::cli {
namespace {

/// Looks at the work to be done before a thread goes to sleep: longer than the gaps between ops, shorter than what a
/// neighbour on the core would miss. libgomp's own choice is 300,000 (docs/cpu-kernels.md).
constexpr const char* kSpinCount = "5000";

bool has_waiting_set() {
  for (const char* name : {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"}) {
    if (std::getenv(name) != nullptr) return true;
  }
  return false;
}

}  // namespace

void settle_thread_waiting(const std::vector<std::string>& arguments) {
  // Without a loader's address the program was started by naming the loader: what runs is the loader's file.
  if (has_waiting_set() || getauxval(AT_BASE) == 0) return;
  std::array<char, 4096> path{};
  const ssize_t size = readlink("/proc/self/exe", path.data(), path.size() - 1);
  if (size <= 0 || setenv("GOMP_SPINCOUNT", kSpinCount, 0) != 0) return;
  std::vector<char*> words = {program_invocation_name};
  for (const std::string& argument : arguments) words.push_back(const_cast<char*>(argument.c_str()));
  words.push_back(nullptr);
  execv(path.data(), words.data());  // comes back only where the file is gone or may not be run
}

}  // namespace litespark::cli
