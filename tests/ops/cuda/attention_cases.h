// SPDX-License-Identifier: Apache-2.0
// Attention for the GPU tests: documents laid end to end, fp64 truth, and the plain implementation in the precision of
// tensor cores: fp32 everywhere, but probabilities and score gradients rounded to the compute dtype before they are
// multiplied.
#pragma once

#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "ops/cuda/cuda_conformance.h"
#include "reference/rope.h"

namespace litespark::test {

struct GpuAttentionCase {
  int heads = 1, kv_heads = 1, dim = 16, window = 0;
  std::vector<int> lengths = {1};
  int tail_rows = 0;        ///< rows of no document
  int spare_documents = 0;  ///< capacity of the offsets beyond the documents there are
  DType dtype = DType::kBF16;
  double magnitude = 1;
  bool has_alibi = false;
  std::vector<int> off_heads = {};

  int64_t rows() const { return std::accumulate(lengths.begin(), lengths.end(), int64_t{tail_rows}); }
  int64_t qkv_columns() const { return int64_t{heads + 2 * kv_heads} * dim; }
  int64_t out_columns() const { return int64_t{heads} * dim; }
  std::string name() const;
  op::HeadGates gates() const;
  op::AttentionShape shape() const;
  Values inputs(uint64_t seed) const;
};

/// Head sizes with tensor kernels, lengths around the tiles, grouped heads 6/2, windows shorter and longer than a tile,
/// packed documents with rows of none behind them, equal documents.
std::vector<GpuAttentionCase> gpu_attention_cases(DType dtype);

/// Outputs of the forward by name.
Values attention_truth(const GpuAttentionCase& c, const Values& in);
Values attention_plain(const GpuAttentionCase& c, const Values& in);
/// dqkv from qkv, out, log_sum_exp and dout.
Values attention_gradient_truth(const GpuAttentionCase& c, const Values& in);
Values attention_gradient_plain(const GpuAttentionCase& c, const Values& in);

/// Cases with scratch as `backend` asks for; the backward's out and log_sum_exp are the rounded truth.
OpCase<op::AttentionForward<Tensor>> attention_forward_case(Backend& backend, const GpuAttentionCase& c, uint64_t seed);
OpCase<op::AttentionBackward<Tensor>> attention_backward_case(Backend& backend, const GpuAttentionCase& c,
                                                              uint64_t seed);

/// The same without out, log_sum_exp and dout, for cases too large for plain loops.
OpCase<op::AttentionBackward<Tensor>> attention_backward_shapes(Backend& backend, const GpuAttentionCase& c,
                                                                uint64_t seed);

/// Gives a case of either direction angles in `dtype` at random positions.
template <class Op>
void add_angles(OpCase<Op>& test, DType dtype) {
  constexpr int64_t kPositions = 4096;
  const int dim = test.op.shape.head_dim;
  test.name += ", rotated by angles in " + std::string(dtype_name(dtype));
  test.op.table = shape_only(dtype, {kPositions, dim});
  test.op.positions = shape_only(DType::kI32, {test.op.qkv.rows()});
  std::vector<double>& table = test.inputs.tensors["table"] = reference::rope_table(kPositions, dim, 500000.0);
  for (double& value : table) value = round_to(dtype, round_to(DType::kF32, value));
  test.inputs.tensors["positions"] = random_integers(test.op.qkv.rows(), 7, kPositions);
}
/// `test` with queries and keys that are rotated as they are read.
OpCase<op::AttentionForward<Tensor>> rotated_on_load(OpCase<op::AttentionForward<Tensor>> test, DType dtype);
/// What that case shall give: op::Rope on `backend`, and there the op on its result.
Execution execute_after_rope(Backend& backend, const OpCase<op::AttentionForward<Tensor>>& test);
/// The same of the gradient: the op without angles, and on its dqkv op::Rope.
Execution execute_before_rope(Backend& backend, const OpCase<op::AttentionBackward<Tensor>>& test);

/// Holds statistics from tensor cores to `tolerance` * (1 + |value|): their fp32 sums are not IEEE's, so that the rule
/// of plain fp32 does not fit, and what follows from them is held to it anyway.
void expect_statistics(const std::string& case_name, const std::vector<double>& actual,
                       const std::vector<double>& expected, double tolerance);

/// A backend that uses the project's own kernels for every shape.
Backend& portable_backend();

/// Runs a case twice on `backend` and reports differing bits.
template <class Op>
Execution execute_twice(Backend& backend, const OpCase<Op>& test) {
  Execution first = execute(backend, test);
  const Execution second = execute(backend, test);
  for (const auto& [name, bytes] : first.bytes) {
    if (name == "scratch") continue;
    EXPECT_EQ(second.bytes.at(name), bytes) << test.name << ": " << name << " differs between two runs";
  }
  return first;
}

/// Columns [first, first + count) of every row.
std::vector<double> columns_of(const std::vector<double>& matrix, int64_t columns, int64_t first, int64_t count);

}  // namespace litespark::test
