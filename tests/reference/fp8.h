// SPDX-License-Identifier: Apache-2.0
// 8-bit floats by search among the codes, and the product of scaled 8-bit operands by plain loops.
#pragma once

#include <cstdint>

#include "core/op/all.h"
#include "core/tensor.h"
#include "support/values.h"

namespace litespark::reference {

/// The value of a code, from the definition of the format: sign, exponent, mantissa.
double fp8_value(DType format, uint8_t code);

/// The code of the value nearest to `value`; of two equally near the even code; the largest for what is larger; code
/// 0x7f for NaN. -0 and what rounds to it keep their sign.
uint8_t nearest_fp8(DType format, double value);

/// "out" from the inputs "a", "b", "a_scale", "b_scale", "bias" and, with accumulation, "out".
template <class Real>
test::Values evaluate(const op::ScaledMatmul<Tensor>& op, const test::Values& in);

}  // namespace litespark::reference
