// SPDX-License-Identifier: Apache-2.0
// The kernels compiled for AVX2.
#include "ops/cpu/kernel_table_impl.h"
#include "ops/cpu/vec16_avx2.h"

namespace litespark::cpu {

const KernelTable& kernel_table_avx2() {
  static constexpr KernelTable kTable = make_kernel_table<avx2::Vec16>();
  return kTable;
}

}  // namespace litespark::cpu
