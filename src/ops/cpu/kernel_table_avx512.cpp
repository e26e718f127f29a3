// SPDX-License-Identifier: Apache-2.0
// The kernels compiled for AVX-512.
#include "ops/cpu/kernel_table_impl.h"
#include "ops/cpu/vec16_avx512.h"

namespace litespark::cpu {

const KernelTable& kernel_table_avx512() {
  static constexpr KernelTable kTable = make_kernel_table<avx512::Vec16>();
  return kTable;
}

}  // namespace litespark::cpu
