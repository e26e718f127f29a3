// SPDX-License-Identifier: Apache-2.0
// The CPU backend: vectorised, threaded kernels chosen at run time, oneDNN for matmuls.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "ops/backend.h"

namespace litespark {

enum class CpuIsa : uint8_t {
  kGeneric,
  kAvx2,
  kAvx512,
  kAvx512Bf16,
  kAmx,  ///< tiles of bf16 on the processor's matrix unit, beside AVX512_BF16
};

struct CpuOptions {
  int threads = 0;  ///< 0: what the affinity mask and the cgroup quota allow
  /// Highest instruction set to use; the default means the best that this machine has.
  CpuIsa max_isa = CpuIsa::kAmx;
};

/// Parses "auto", "generic", "avx2", "avx512", "avx512bf16", "amx" (device.isa); throws ConfigError on others.
CpuIsa parse_cpu_isa(std::string_view name);
/// What this processor offers and the system lets us use; asks for the matrix unit's registers once.
CpuIsa detect_cpu_isa();

/// Libraries that the kernels call, with their versions: {"oneDNN", "2.7.3"}.
std::map<std::string, std::string> cpu_library_versions();

std::unique_ptr<Backend> make_cpu_backend(const CpuOptions& options);

}  // namespace litespark
