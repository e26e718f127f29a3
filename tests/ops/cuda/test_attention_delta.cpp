// SPDX-License-Identifier: Apache-2.0
// The row sums of dout * out that the backward starts from, seen through a gradient that is nothing else.
#include "ops/cuda/attention_cases.h"

namespace litespark::test {
namespace {

// One key a query (window 1): P = 1, so dP - delta must cancel and the gradients of queries and keys are rounding
// noise, while a delta of another row or head would leave numbers of the size of dout.
TEST(AttentionDelta, CancelsWhereAQuerySeesOneKey) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const GpuAttentionCase c{.heads = 4, .kv_heads = 2, .dim = 64, .window = 1, .lengths = {100, 30}, .dtype = dtype};
    const auto test = attention_backward_case(portable_backend(), c, 7);
    const std::vector<double> dqkv = execute_twice(portable_backend(), test).outputs.at("dqkv");
    const int64_t query_and_key_columns = int64_t{c.heads + c.kv_heads} * c.dim;
    for (const double value : columns_of(dqkv, c.qkv_columns(), 0, query_and_key_columns)) ASSERT_NEAR(value, 0, 1e-4);
  }
}

}  // namespace
}  // namespace litespark::test
