// SPDX-License-Identifier: Apache-2.0
// The fp32 attention, and heads of sizes that no tensor kernel serves.
#include "ops/cuda/attention_cases.h"

namespace litespark::test {
namespace {

std::vector<GpuAttentionCase> simt_cases() {
  std::vector<GpuAttentionCase> cases = gpu_attention_cases(DType::kF32);
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    cases.push_back({.heads = 3, .kv_heads = 1, .dim = 7, .lengths = {5, 40}, .dtype = dtype});
    cases.push_back({.heads = 6, .kv_heads = 2, .dim = 40, .lengths = {97, 1}, .tail_rows = 2, .dtype = dtype});
    cases.push_back({.heads = 2, .kv_heads = 2, .dim = 80, .window = 9, .lengths = {66, 66}, .dtype = dtype});
    cases.push_back({.heads = 6, .kv_heads = 2, .dim = 40, .lengths = {97, 1}, .dtype = dtype, .has_alibi = true});
  }
  return cases;
}

/// These kernels round nothing on the way, so the plain implementation does not either.
GpuAttentionCase unrounded(GpuAttentionCase c) {
  c.dtype = DType::kF32;
  return c;
}

TEST(AttentionSimt, ForwardKeepsTheErrorRule) {
  for (const GpuAttentionCase& c : simt_cases()) {
    const auto test = attention_forward_case(portable_backend(), c, 3);
    expect_kernel_rule(test.name, execute_twice(portable_backend(), test), attention_truth(c, test.inputs),
                       attention_plain(unrounded(c), test.inputs));
  }
}

TEST(AttentionSimt, BackwardKeepsTheErrorRule) {
  for (const GpuAttentionCase& c : simt_cases()) {
    const auto test = attention_backward_case(portable_backend(), c, 4);
    expect_kernel_rule(test.name, execute_twice(portable_backend(), test), attention_gradient_truth(c, test.inputs),
                       attention_gradient_plain(unrounded(c), test.inputs));
  }
}

}  // namespace
}  // namespace litespark::test
