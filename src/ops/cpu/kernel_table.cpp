// SPDX-License-Identifier: Apache-2.0
// The choice between the tables. Called only with what the processor has: CpuBackend lowers its instruction set to
// that.
#include "ops/cpu/kernel_table.h"

namespace litespark::cpu {

const KernelTable& kernel_table(CpuIsa isa) {
  switch (isa) {
    case CpuIsa::kGeneric: return kernel_table_generic();
    case CpuIsa::kAvx2: return kernel_table_avx2();
    case CpuIsa::kAvx512: return kernel_table_avx512();
    case CpuIsa::kAvx512Bf16:
    case CpuIsa::kAmx: return kernel_table_avx512bf16();
  }
  return kernel_table_generic();
}

}  // namespace litespark::cpu
