// SPDX-License-Identifier: Apache-2.0
// Attention that context ranks share, on the GPU: each part keeps the kernel error rule and gives the same bits every
// time, and all parts make up whole attention and its gradient.
#include <cmath>
#include <limits>

#include "ops/attention_part_cases.h"
#include "ops/cuda/attention_cases.h"

namespace litespark::test {
namespace {

/// The shared cases, and every head size that a kernel of its own serves: tiles that chunks cut anywhere, documents
/// that cross chunks, windows, rows of none, ALiBi.
std::vector<AttentionPartCase> gpu_part_cases() {
  std::vector<AttentionPartCase> cases = attention_part_cases();
  for (const int dim : {16, 64, 96, 128, 256}) {
    const auto add = [&](AttentionCase whole, int ranks) {
      whole.dim = dim;
      whole.dtype = DType::kBF16;
      cases.push_back({whole, ranks});
    };
    add({.heads = 4, .kv_heads = 2, .lengths = {516}}, 2);
    add({.heads = 2, .kv_heads = 1, .lengths = {1, 200, 130, 65}, .tail_rows = 4, .spare_documents = 40}, 2);
    add({.heads = 2, .kv_heads = 2, .window = 100, .lengths = {300, 84}, .tail_rows = 6}, 3);
    add({.heads = 3, .kv_heads = 1, .lengths = {150, 106}, .has_alibi = true}, 2);
  }
  for (const int dim : {64, 128}) {
    cases.push_back({{.heads = 2, .kv_heads = 1, .dim = dim, .lengths = {1536}, .dtype = DType::kBF16}, 3});
  }
  return cases;
}

/// The part's kernels with scratch as the backend asks for.
template <class Op>
Execution execute_part(Backend& backend, OpCase<Op> test) {
  const auto bytes = [&] {
    const BackendSizes& sizes = backend.sizes();
    if constexpr (requires { test.op.dqueries; }) {
      return sizes.attention_part_backward_scratch_bytes(test.op.shape, test.op.qkv.rows(), test.op.qkv.dtype);
    } else {
      return sizes.attention_part_forward_scratch_bytes(test.op.shape, test.op.qkv.rows(), test.op.qkv.dtype);
    }
  }();
  if (bytes > 0) test.op.scratch = shape_only(DType::kU8, {bytes});
  return execute_twice(backend, test);
}

/// Log-sum-exps, where -infinity stands for no key at all.
void expect_part_statistics(const std::string& name, std::vector<double> found, std::vector<double> expected) {
  ASSERT_EQ(found.size(), expected.size()) << name;
  for (size_t i = 0; i < found.size(); ++i) {
    if (!std::isinf(expected[i])) continue;
    ASSERT_EQ(found[i], expected[i]) << name << " at " << i;
    found[i] = expected[i] = 0;
  }
  expect_statistics(name, found, expected, 4e-6);
}

void expect_forward_rule(Backend& backend) {
  for (const AttentionPartCase& c : gpu_part_cases()) {
    const Values inputs = c.whole.inputs(1);
    for (const int rank : ranks_at_the_ends(c)) {
      Values seen;
      for (const int key_rank : c.ring_of(rank)) {
        auto test = c.forward(inputs, rank, key_rank, key_rank == rank);
        for (const auto& [name, values] : seen.tensors) test.inputs.tensors[name] = values;
        Values truth = reference::evaluate<double>(test.op, test.inputs);
        const Values plain = reference::evaluate<float>(test.op, test.inputs);
        seen = rounded(truth);
        const Execution found = in_dtype_of(c, execute_part(backend, test));
        expect_part_statistics(test.name, found.outputs.at("log_sum_exp"), truth.at("log_sum_exp"));
        truth.tensors.erase("log_sum_exp");
        expect_gradient_rule(test.name, found, truth, plain);
      }
    }
  }
}

TEST(AttentionPart, ForwardKeepsTheErrorRuleWhateverWasSeenBefore) {
  expect_forward_rule(cuda_backend());
}

TEST(AttentionPart, ThePortableForwardKeepsTheErrorRuleToo) {
  expect_forward_rule(portable_backend());
}

TEST(AttentionPart, BackwardKeepsTheErrorRule) {
  for (const AttentionPartCase& c : gpu_part_cases()) {
    const Values inputs = c.whole.backward(1).inputs;
    for (const int rank : ranks_at_the_ends(c)) {
      for (const int key_rank : c.ring_of(rank)) {
        auto test = c.backward(inputs, rank, key_rank, key_rank == rank);
        if (!test.op.first) {
          test.inputs.tensors["dqueries"] = random_normal(DType::kF32, c.rows() * c.whole.out_columns(), 9);
        }
        expect_gradient_rule(test.name, in_dtype_of(c, execute_part(cuda_backend(), test)),
                             reference::evaluate<double>(test.op, test.inputs),
                             reference::evaluate<float>(test.op, test.inputs));
      }
    }
  }
}

TEST(AttentionPart, PartsOfAllRanksMakeUpWholeAttention) {
  for (const AttentionPartCase& c : gpu_part_cases()) {
    expect_whole_attention(c, [&](const auto& test) { return execute_part(cuda_backend(), test).outputs; });
  }
}

TEST(AttentionPart, AKeyThatIsNaNReachesTheQueriesThatSeeItAndNoOther) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const AttentionPartCase c{{.heads = 1, .kv_heads = 1, .dim = 64, .lengths = {100, 60}, .dtype = dtype}, 2};
    Values inputs = c.whole.inputs(6);
    inputs.tensors["qkv"][static_cast<size_t>(70 * c.whole.qkv_columns() + 64)] =
        std::numeric_limits<double>::quiet_NaN();
    const Values found =
        join_forward(c, inputs, [&](const auto& test) { return execute_part(cuda_backend(), test).outputs; });
    for (size_t row = 0; row < 160; ++row) {
      ASSERT_EQ(std::isnan(found.at("out")[row * 64]), row >= 70 && row < 100) << "row " << row;
    }
  }
}

TEST(AttentionPart, AQueryThatSeesNoKeyOfAPartKeepsItsBits) {
  for (const int dim : {16, 24, 64, 128}) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      const AttentionPartCase c{{.heads = 2, .kv_heads = 1, .dim = dim, .lengths = {20, 20, 20, 20}, .dtype = dtype},
                                2};
      auto test = c.forward(c.whole.inputs(5), 0, 1, false);
      test.inputs.tensors["out"] = random_normal(DType::kF32, c.rows() * c.whole.out_columns(), 1);
      test.inputs.tensors["log_sum_exp"] = random_normal(DType::kF32, 2 * c.rows(), 2);
      expect_exact(
          test.name, execute_part(cuda_backend(), test),
          {.tensors = {{"out", test.inputs.at("out")}, {"log_sum_exp", test.inputs.at("log_sum_exp")}}, .state = {}});
    }
  }
}

TEST(AttentionPart, BackwardWithoutItsScratchIsRefused) {
  const AttentionPartCase c{{.dim = 16, .lengths = {64}}, 2};
  const auto test = c.backward(c.whole.backward(7).inputs, 1, 0, true);
  EXPECT_THROW(execute(cuda_backend(), test), InternalError);
}

}  // namespace
}  // namespace litespark::test
