// SPDX-License-Identifier: Apache-2.0
// The two ops that each product with SwiGLU inside stands for.
#pragma once

#include "core/op/gated.h"
#include "core/op/matmul.h"
#include "core/op/swiglu.h"
#include "core/tensor.h"

namespace litespark {

struct GatedForwardParts {
  op::MatmulForward<Tensor> product;
  op::SwiGluForward<Tensor> activation;
};
/// To be run in this order.
GatedForwardParts parts_of(const op::GatedForward<Tensor>& op);

struct GatedBackwardParts {
  op::MatmulBackwardInput<Tensor> product;  ///< into the first bytes of the op's scratch
  op::SwiGluBackward<Tensor> activation;
};
GatedBackwardParts parts_of(const op::GatedBackward<Tensor>& op);

}  // namespace litespark
