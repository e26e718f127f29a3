// SPDX-License-Identifier: Apache-2.0
// Attention on 8-bit floats by plain loops: the copies code by code, and what their values give without any rounding of
// probabilities.
#pragma once

#include <cstddef>
#include <vector>

#include "core/op/all.h"
#include "core/tensor.h"
#include "support/values.h"

namespace litespark::reference {

/// What op::QuantizeQkv writes for the inputs "qkv" and "abs_max".
struct QuantizedQkv {
  std::vector<std::byte> queries_keys, values;
  double scale = 0;
  int64_t flushed = 0;
};
QuantizedQkv quantized_qkv(const op::QuantizeQkv<Tensor>& op, const test::Values& in);

/// "out" and "log_sum_exp" of attention over the values of the codes. `magnitudes`: over their absolute values, with
/// the same probabilities, which is what bounds an error of the probabilities.
template <class Real>
test::Values evaluate(const op::AttentionForwardFp8<Tensor>& op, const test::Values& in, bool magnitudes = false);

}  // namespace litespark::reference
