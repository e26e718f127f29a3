// SPDX-License-Identifier: Apache-2.0
// Which instruction set the kernels may use: what the processor has, capped by what the user allows.
#include "core/error.h"
#include "ops/cpu/cpu_backend.h"

namespace litespark {

CpuIsa parse_cpu_isa(std::string_view name) {
  if (name == "generic") return CpuIsa::kGeneric;
  if (name == "avx2") return CpuIsa::kAvx2;
  if (name == "avx512") return CpuIsa::kAvx512;
  if (name == "avx512bf16" || name == "auto") return CpuIsa::kAvx512Bf16;
  throw ConfigError("device.isa", "unknown instruction set", name, "auto, generic, avx2, avx512 or avx512bf16");
}

CpuIsa detect_cpu_isa() {
  // The x86-64 levels name exactly what -march=x86-64-v3 and -v4 may emit; the operating system's part (saved
  // registers) is included. The builtin returns any non-zero value for "yes".
  __builtin_cpu_init();
  if (__builtin_cpu_supports("x86-64-v4") != 0) {
    return __builtin_cpu_supports("avx512bf16") != 0 ? CpuIsa::kAvx512Bf16 : CpuIsa::kAvx512;
  }
  return __builtin_cpu_supports("x86-64-v3") != 0 ? CpuIsa::kAvx2 : CpuIsa::kGeneric;
}

}  // namespace litespark
