// SPDX-License-Identifier: Apache-2.0
#include "ops/gated_parts.h"

#include <cstddef>

namespace litespark {

GatedForwardParts parts_of(const op::GatedForward<Tensor>& op) {
  return {.product = {.y = op.gate_up,
                      .x = op.x,
                      .weight = op.weight,
                      .packed = {},
                      .bias = {},
                      .scratch = op.scratch,
                      .in_features = op.x.columns(),
                      .out_features = op.gate_up.columns()},
          .activation = {.h = op.h, .gate_up = op.gate_up, .abs_max = {}}};
}

GatedBackwardParts parts_of(const op::GatedBackward<Tensor>& op) {
  const int64_t columns = op.weight.columns();
  const int64_t gradient_bytes = op::gated_gradient_bytes(op.dout.rows(), columns, op.dout.dtype);
  Tensor dh = op.dout;
  dh.data = op.scratch.data;
  dh.shape = {op.dout.rows(), columns};
  Tensor rest = op.scratch;
  rest.data = static_cast<std::byte*>(op.scratch.data) + gradient_bytes;
  rest.shape = {op.scratch.num_elements() - gradient_bytes};
  if (rest.num_elements() == 0) rest = {};
  return {.product = {.dx = dh,
                      .dy = op.dout,
                      .weight = op.weight,
                      .packed = {},
                      .scratch = rest,
                      .in_features = columns,
                      .out_features = op.dout.columns()},
          .activation = {.dgate_up = op.dgate_up, .dh = dh, .gate_up = op.gate_up, .abs_max = {}}};
}

}  // namespace litespark
