// SPDX-License-Identifier: Apache-2.0
#include "machine.h"

#include <sys/utsname.h>

#include <fstream>

#include "core/text_table.h"
#include "meter/cpu_model.h"

#ifdef LITESPARK_HAS_CPU
#include "ops/cpu/cpu_backend.h"
#endif
#ifdef LITESPARK_HAS_CUDA
#include "ops/cuda/cuda_backend.h"
#endif

namespace litespark::cli {
namespace {

/// "unknown" where /proc does not say, as on machines other than x86.
std::string processor_name() {
  std::ifstream stream("/proc/cpuinfo");
  for (std::string line; std::getline(stream, line);) {
    const size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown";
}

std::string compiler_name() {
#ifdef __clang__
  return __VERSION__;
#else
  return std::string("g++ ") + __VERSION__;
#endif
}

std::string kernel_name() {
  utsname names{};
  if (uname(&names) != 0) return "unknown";
  return std::string(names.sysname) + " " + names.release + " " + names.machine;
}

}  // namespace

std::map<std::string, std::string> program_versions() {
  std::map<std::string, std::string> versions = {{"litespark", LITESPARK_VERSION}, {"compiler", compiler_name()}};
#ifdef LITESPARK_HAS_CPU
  versions.merge(cpu_library_versions());
#endif
#ifdef LITESPARK_HAS_CUDA
  versions.merge(cuda_library_versions());
#endif
  return versions;
}

std::string host_name() {
  utsname system{};
  return uname(&system) == 0 ? system.nodename : "?";
}

std::map<std::string, std::string> machine_facts(const Backend& backend) {
  const CpuModel cpu = cpu_model_of_this_machine();
  return {{"device", backend.name()},
          {"processor", processor_name()},
          {"hardware_threads", std::to_string(cpu.num_cores)},
          {"memory_gib", fixed_text(cpu.memory_gib)},
          {"kernel", kernel_name()}};
}

}  // namespace litespark::cli
