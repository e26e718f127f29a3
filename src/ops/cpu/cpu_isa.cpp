// SPDX-License-Identifier: Apache-2.0
// Which instruction set the kernels may use: what the processor has, capped by what the user allows.
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/error.h"
#include "ops/cpu/cpu_backend.h"

namespace litespark {
namespace {

/// Whether the processor multiplies tiles of bf16, and the kernel keeps the tiles' registers for this process: it wants
/// to be asked, since they make every thread's saved state 8 KiB larger.
bool may_use_matrix_unit() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0) return false;
  constexpr unsigned kAmxBf16 = 1u << 22, kAmxTile = 1u << 24;
  if ((edx & kAmxBf16) == 0 || (edx & kAmxTile) == 0) return false;
  constexpr int kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, since Linux 5.16
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

}  // namespace

CpuIsa parse_cpu_isa(std::string_view name) {
  if (name == "generic") return CpuIsa::kGeneric;
  if (name == "avx2") return CpuIsa::kAvx2;
  if (name == "avx512") return CpuIsa::kAvx512;
  if (name == "avx512bf16") return CpuIsa::kAvx512Bf16;
  if (name == "amx" || name == "auto") return CpuIsa::kAmx;
  throw ConfigError("device.isa", "unknown instruction set", name, "auto, generic, avx2, avx512, avx512bf16 or amx");
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
  if (__builtin_cpu_supports("avx512bf16") == 0) return CpuIsa::kAvx512;
  static const bool has_matrix_unit = may_use_matrix_unit();
  return has_matrix_unit ? CpuIsa::kAmx : CpuIsa::kAvx512Bf16;
}

}  // namespace litespark
