// SPDX-License-Identifier: Apache-2.0
// Attention that context ranks share, on the GPU: each part keeps the kernel error rule and gives the same bits every
// time, and all parts make up whole attention and its gradient.
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

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
  for (const int dim : {64, 96, 128, 256}) {
    cases.push_back({{.heads = 2, .kv_heads = 1, .dim = dim, .lengths = {1536}, .dtype = DType::kBF16}, 3});
    cases.push_back(
        {{.heads = 3, .kv_heads = 1, .dim = dim, .window = 150, .lengths = {1100}, .dtype = DType::kBF16}, 2});
    cases.push_back({{.heads = 2,
                      .kv_heads = 2,
                      .dim = dim,
                      .lengths = {1, 700, 130, 65, 64},
                      .tail_rows = 300,
                      .dtype = DType::kBF16},
                     2});
  }
  return cases;
}

/// Adds up gradients as they come.
Backend& free_order_backend() {
  static const std::unique_ptr<Backend> backend = make_cuda_backend({.deterministic = false});
  return *backend;
}

template <class Op>
Execution execute_part(Backend& backend, const OpCase<Op>& test) {
  return execute_twice(backend, with_scratch(backend, test));
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

/// `execute(test)` runs a case.
template <class Execute>
void expect_backward_rule(const Execute& execute) {
  for (const AttentionPartCase& c : gpu_part_cases()) {
    const Values inputs = c.whole.backward(1).inputs;
    for (const int rank : ranks_at_the_ends(c)) {
      for (const int key_rank : c.ring_of(rank)) {
        auto test = c.backward(inputs, rank, key_rank, key_rank == rank);
        if (!test.op.first) {
          test.inputs.tensors["dqueries"] = random_normal(DType::kF32, c.rows() * c.whole.out_columns(), 9);
        }
        expect_gradient_rule(test.name, in_dtype_of(c, execute(test)),
                             reference::evaluate<double>(test.op, test.inputs),
                             reference::evaluate<float>(test.op, test.inputs));
      }
    }
  }
}

TEST(AttentionPart, BackwardKeepsTheErrorRule) {
  expect_backward_rule([](const auto& test) { return execute_part(cuda_backend(), test); });
}

TEST(AttentionPart, ThePortableBackwardKeepsTheErrorRuleToo) {
  expect_backward_rule([](const auto& test) { return execute_part(portable_backend(), test); });
}

TEST(AttentionPart, BackwardInFreeOrderKeepsTheErrorRule) {
  expect_backward_rule([](const auto& test) {
    Backend& backend = free_order_backend();
    return execute(backend, with_scratch(backend, test));
  });
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
  for (const int dim : {16, 24, 64, 96, 128, 256}) {
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

TEST(AttentionPart, AQueryThatSeesNoKeyOfAPartKeepsItsGradientAndItsKeysHaveNone) {
  for (const int dim : {16, 24, 64, 96, 128, 256}) {
    const AttentionPartCase c{
        {.heads = 2, .kv_heads = 1, .dim = dim, .lengths = {70, 70, 70, 70}, .dtype = DType::kBF16}, 2};
    auto test = c.backward(c.whole.backward(5).inputs, 0, 1, false);
    test.inputs.tensors["dqueries"] = random_normal(DType::kF32, c.rows() * c.whole.out_columns(), 1);
    const std::vector<double> none(static_cast<size_t>(c.rows() * c.kv_columns()), 0.0);
    expect_exact(test.name, execute_part(cuda_backend(), test),
                 {.tensors = {{"dqueries", test.inputs.at("dqueries")}, {"dkeys_values", none}}, .state = {}});
  }
}

// More blocks than multiprocessors, so that blocks start while others wait for their turn.
TEST(AttentionPart, BackwardGivesTheSameBitsInFiftyRuns) {
  Backend& backend = cuda_backend();
  for (const int dim : {64, 96, 128}) {
    const AttentionPartCase c{
        {.heads = 16, .kv_heads = 8, .dim = dim, .lengths = {3000, 2000, 600}, .dtype = DType::kBF16}, 2};
    Values inputs = c.whole.inputs(3);
    inputs.tensors["out"] = random_normal(DType::kBF16, c.whole.rows() * c.whole.out_columns(), 4);
    inputs.tensors["dout"] = random_normal(DType::kBF16, c.whole.rows() * c.whole.out_columns(), 5);
    inputs.tensors["log_sum_exp"].assign(static_cast<size_t>(c.whole.heads * c.whole.rows()), 8.0);
    for (const auto& [query_rank, key_rank] : {std::pair(0, 0), {1, 0}, {0, 1}}) {
      const auto test = with_scratch(backend, c.backward(inputs, query_rank, key_rank, true));
      CaseMemory memory(backend, test.inputs, test.aliases);
      const auto bound = test.op.map(memory);
      std::vector<std::byte> first;
      for (int run = 0; run < 50; ++run) {
        backend.run(bound);
        std::vector<std::byte> bytes;
        for (const Tensor& tensor : {bound.dqueries, bound.dkeys_values}) {
          const size_t before = bytes.size();
          bytes.resize(before + static_cast<size_t>(tensor.bytes()));
          backend.copy_to_host(bytes.data() + before, tensor.data, tensor.bytes());
        }
        if (run == 0) first = bytes;
        ASSERT_EQ(bytes, first) << "run " << run << ", " << test.name;
      }
    }
  }
}

TEST(AttentionPart, BackwardWithoutItsScratchIsRefused) {
  for (const int dim : {16, 64}) {
    const AttentionPartCase c{{.dim = dim, .lengths = {64}, .dtype = DType::kBF16}, 2};
    const auto test = c.backward(c.whole.backward(7).inputs, 1, 0, true);
    EXPECT_THROW(execute(cuda_backend(), test), InternalError);
  }
}

// Sums of dQ are what the Hopper kernels have in their scratch and the portable ones have not.
TEST(AttentionPart, BackwardTakesTheHopperKernelsWhereThereAreAny) {
  op::AttentionShape shape = AttentionCase{.heads = 2, .kv_heads = 1, .dim = 128, .lengths = {512}}.shape();
  const auto bytes = [&](Backend& backend, DType compute) {
    return backend.sizes().attention_part_backward_scratch_bytes(shape, 512, compute);
  };
  const int64_t portable = bytes(portable_backend(), DType::kBF16);
  EXPECT_EQ(bytes(cuda_backend(), DType::kF32), portable);
  if (cuda_backend().name().find("sm_90") == std::string::npos) GTEST_SKIP() << "no Hopper part here";
  EXPECT_GE(bytes(cuda_backend(), DType::kBF16), 128 * portable);
  shape.head_dim = 96;
  EXPECT_GE(bytes(cuda_backend(), DType::kBF16), 96 * portable);
  shape.head_dim = 256;
  EXPECT_EQ(bytes(cuda_backend(), DType::kBF16), portable) << "a forward alone";
  shape.head_dim = 128;
  shape.has_alibi = true;
  EXPECT_EQ(bytes(cuda_backend(), DType::kBF16), portable);
}

}  // namespace
}  // namespace litespark::test
