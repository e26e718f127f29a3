// SPDX-License-Identifier: Apache-2.0
// The kernels compiled for any x86-64.
#include "ops/cpu/kernel_table_impl.h"
#include "ops/cpu/vec16_generic.h"

namespace litespark::cpu {

const KernelTable& kernel_table_generic() {
  static constexpr KernelTable kTable = make_kernel_table<generic::Vec16>();
  return kTable;
}

}  // namespace litespark::cpu
