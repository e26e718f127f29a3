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
  // Features of -march=x86-64-v3 and -v4 by those of their names that every compiler's builtin knows; a processor with
  // these has the rest of its level. The operating system's part (saved registers) is included.
  __builtin_cpu_init();
  const auto has = [](auto... supported) { return ((supported != 0) && ...); };
  const bool has_v3 = has(__builtin_cpu_supports("avx2"), __builtin_cpu_supports("fma"), __builtin_cpu_supports("bmi"),
                          __builtin_cpu_supports("bmi2"));
  const bool has_v4 =
      has(__builtin_cpu_supports("avx512f"), __builtin_cpu_supports("avx512bw"), __builtin_cpu_supports("avx512cd"),
          __builtin_cpu_supports("avx512dq"), __builtin_cpu_supports("avx512vl"));
  if (!has_v3) return CpuIsa::kGeneric;
  if (!has_v4) return CpuIsa::kAvx2;
  return __builtin_cpu_supports("avx512bf16") != 0 ? CpuIsa::kAvx512Bf16 : CpuIsa::kAvx512;
}

}  // namespace litespark
