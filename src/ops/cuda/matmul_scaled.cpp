// SPDX-License-Identifier: Apache-2.0
// Products of 8-bit copies through cuBLASLt, which on Hopper takes both operands with the summed dimension contiguous
// and nothing else: column-major D [N x M] = b^T a, as a forward product's layout is.
#include "core/error.h"
#include "ops/cuda/check.h"
#include "ops/cuda/cuda_backend_impl.h"
#include "ops/cuda/matmul.h"

namespace litespark::cuda {

MatmulProblem problem_of(const op::ScaledMatmul<Tensor>& op) {
  return {.kind = MatmulKind::kScaled,
          .rows = op.a.rows(),
          .in_features = op.a.columns(),
          .out_features = op.b.rows(),
          .compute = op.a.dtype,
          .has_bias = op.bias.has_value(),
          .accumulate = op.accumulate,
          .weight = op.b.dtype,
          .output = op.out.dtype,
          .has_vector_scales = op.b_scale.num_elements() > 1,
          .is_fast = op.is_fast,
          .alignment_bytes = common_alignment(op.out.data, op.a.data, op.b.data)};
}

void CudaBackend::run(const op::ScaledMatmul<Tensor>& op) {
  const MatmulProblem problem = problem_of(op);
  if (problem.rows == 0) return;
  const MatmulPointers pointers{.a = op.b.data,
                                .b = op.a.data,
                                .d = op.out.data,
                                .bias = bias_in_output_dtype(op.bias, op.scratch, problem, context_.stream),
                                .a_scale = op.b_scale.data,
                                .b_scale = op.a_scale.data};
  matmul_->run(problem, with_workspace(pointers, op.scratch, problem));
}

}  // namespace litespark::cuda
