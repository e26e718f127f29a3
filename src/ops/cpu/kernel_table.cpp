// SPDX-License-Identifier: Apache-2.0
// The kernels compiled for any x86-64, and the choice between the tables.
#include "ops/cpu/kernel_table.h"

#include "ops/cpu/kernel_table_impl.h"
#include "ops/cpu/vec16_generic.h"

namespace litespark::cpu {

const KernelTable& kernel_table_generic() {
  static constexpr KernelTable kTable = make_kernel_table<generic::Vec16>();
  return kTable;
}

const KernelTable& kernel_table(CpuIsa isa) {
  switch (isa) {
    case CpuIsa::kGeneric: return kernel_table_generic();
    case CpuIsa::kAvx2: return kernel_table_avx2();
    case CpuIsa::kAvx512:
    case CpuIsa::kAvx512Bf16: return kernel_table_avx512();
  }
  return kernel_table_generic();
}

}  // namespace litespark::cpu
