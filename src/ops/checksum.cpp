// SPDX-License-Identifier: Apache-2.0
// Contract check of the checksum.
#include "ops/op_check.h"

namespace litespark {

void check_contract(const op::Checksum<Tensor>& op) {
  const OpCheck check(op.kName);
  check.dtype("x", op.x, {DType::kF32, DType::kBF16, DType::kU8, DType::kU16, DType::kE4M3, DType::kE5M2, DType::kF16});
  check.dtype("out", op.out, {DType::kI64});
  check.elements("out", op.out, 1);
}

}  // namespace litespark
