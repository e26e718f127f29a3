// SPDX-License-Identifier: Apache-2.0
// The kernels compiled for AVX-512 with AVX512_BF16: the same bits, rounded to bf16 in fewer instructions.
#include "ops/cpu/kernel_table_impl.h"
#include "ops/cpu/vec16_avx512.h"

namespace litespark::cpu {

const KernelTable& kernel_table_avx512bf16() {
  static constexpr KernelTable kTable = make_kernel_table<avx512bf16::Vec16>();
  return kTable;
}

}  // namespace litespark::cpu
