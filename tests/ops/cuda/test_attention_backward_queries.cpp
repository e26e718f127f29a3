// SPDX-License-Identifier: Apache-2.0
// The gradient of the query heads on tensor cores: the first H D columns of dqkv.
#include "ops/cuda/attention_cases.h"
#include "support/tolerance.h"

namespace litespark::test {
namespace {

TEST(AttentionBackwardQueries, KeepTheErrorRule) {
  for (const GpuAttentionCase& c : gpu_attention_cases(DType::kBF16)) {
    const auto test = attention_backward_case(portable_backend(), c, 2);
    const auto queries = [&](const std::vector<double>& dqkv) {
      return columns_of(dqkv, c.qkv_columns(), 0, c.out_columns());
    };
    const std::vector<double> truth = queries(attention_gradient_truth(c, test.inputs).at("dqkv"));
    std::vector<double> plain = queries(attention_gradient_plain(c, test.inputs).at("dqkv"));
    for (double& value : plain) value = round_to(c.dtype, value);
    const std::vector<double> ours = queries(execute_twice(portable_backend(), test).outputs.at("dqkv"));
    EXPECT_EQ(kernel_rule_violation(compare(ours, truth), compare(plain, truth), c.dtype), "") << test.name;
  }
}

}  // namespace
}  // namespace litespark::test
