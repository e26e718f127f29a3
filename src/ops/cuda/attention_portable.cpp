// SPDX-License-Identifier: Apache-2.0
// Which of the project's own kernels for every GPU run.
#include "ops/cuda/attention_portable.h"

namespace litespark::cuda {

bool attention_has_tensor_kernel(int head_dim, DType dtype) {
  if (dtype != DType::kBF16) return false;
  for (const int size : {16, 32, 64, 96, 128, 256}) {
    if (size == head_dim) return true;
  }
  return false;
}

void launch_attention_forward(const AttentionArguments& arguments, DType dtype, const DeviceContext& context) {
  if (attention_has_tensor_kernel(arguments.head_dim, dtype)) {
    launch_attention_forward_tensor(arguments, context);
  } else {
    launch_attention_forward_simt(arguments, dtype, context);
  }
}

void launch_attention_backward(const AttentionArguments& arguments, DType dtype, const DeviceContext& context) {
  launch_attention_delta(arguments, dtype, context);
  if (attention_has_tensor_kernel(arguments.head_dim, dtype)) {
    launch_attention_backward_queries(arguments, context);
    launch_attention_backward_keys(arguments, context);
  } else {
    launch_attention_backward_simt(arguments, dtype, context);
  }
}

}  // namespace litespark::cuda
