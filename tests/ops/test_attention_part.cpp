// SPDX-License-Identifier: Apache-2.0
// Attention that context ranks share: each part keeps the kernel error rule, and all parts make up whole attention and
// its gradient.
#include <cmath>
#include <limits>
#include <set>

#include "ops/attention_part_cases.h"
#include "ops/cpu_conformance.h"
#include "support/finite_differences.h"

namespace litespark::test {
namespace {

/// The generic kernels are slow.
std::vector<CpuIsa> isas_for(const AttentionPartCase& c) {
  std::vector<CpuIsa> isas = usable_isas();
  if (c.whole.rows() > 200 && isas.size() > 1) isas.erase(isas.begin());
  return isas;
}

TEST(AttentionPart, ForwardKeepsTheErrorRuleWhateverWasSeenBefore) {
  for (const AttentionPartCase& c : attention_part_cases()) {
    const Values inputs = c.whole.inputs(1);
    for (const int rank : ranks_at_the_ends(c)) {
      Values seen;
      for (const int key_rank : c.ring_of(rank)) {
        auto test = c.forward(inputs, rank, key_rank, key_rank == rank);
        for (const auto& [name, values] : seen.tensors) test.inputs.tensors[name] = values;
        const Values truth = reference::evaluate<double>(test.op, test.inputs);
        const Values plain = reference::evaluate<float>(test.op, test.inputs);
        for (const CpuIsa isa : isas_for(c)) {
          expect_kernel_rule(test.name, in_dtype_of(c, execute(cpu_backend(isa, 2), test)), truth, plain);
        }
        seen = rounded(truth);
      }
    }
  }
}

TEST(AttentionPart, BackwardKeepsTheErrorRule) {
  for (const AttentionPartCase& c : attention_part_cases()) {
    const Values inputs = c.whole.backward(1).inputs;
    for (const int rank : ranks_at_the_ends(c)) {
      for (const int key_rank : c.ring_of(rank)) {
        auto test = c.backward(inputs, rank, key_rank, key_rank == rank);
        if (!test.op.first) {
          test.inputs.tensors["dqueries"] = random_normal(DType::kF32, c.rows() * c.whole.out_columns(), 9);
        }
        const Values truth = reference::evaluate<double>(test.op, test.inputs);
        const Values plain = reference::evaluate<float>(test.op, test.inputs);
        for (const CpuIsa isa : isas_for(c)) {
          expect_gradient_rule(test.name, in_dtype_of(c, execute(cpu_backend(isa, 2), test)), truth, plain);
        }
      }
    }
  }
}

TEST(AttentionPart, BitsDoNotDependOnTheNumberOfThreads) {  // fault:C7
  for (const AttentionPartCase& c : attention_part_cases()) {
    const Values inputs = c.whole.backward(2).inputs;
    execute_with_threads(detect_cpu_isa(), c.forward(inputs, c.ranks - 1, 0, true));
    execute_with_threads(detect_cpu_isa(), c.backward(inputs, c.ranks - 1, 0, true));
  }
}

TEST(AttentionPart, PartsOfAllRanksMakeUpWholeAttention) {
  for (const AttentionPartCase& c : attention_part_cases()) {
    for (const CpuIsa isa : std::set{isas_for(c).front(), detect_cpu_isa()}) {
      SCOPED_TRACE(cpu_backend(isa, 2).name());
      expect_whole_attention(c, [&](const auto& test) { return execute(cpu_backend(isa, 2), test).outputs; });
    }
  }
}

TEST(AttentionPart, AKeyThatIsNaNReachesTheQueriesThatSeeItAndNoOther) {
  const AttentionPartCase c{{.heads = 1, .kv_heads = 1, .dim = 16, .lengths = {100, 60}}, 2};
  Values inputs = c.whole.inputs(6);
  inputs.tensors["qkv"][static_cast<size_t>(70 * c.whole.qkv_columns() + 16)] =
      std::numeric_limits<double>::quiet_NaN();
  for (const CpuIsa isa : usable_isas()) {
    const Values found =
        join_forward(c, inputs, [&](const auto& test) { return execute(cpu_backend(isa, 2), test).outputs; });
    for (size_t row = 0; row < 160; ++row) {
      ASSERT_EQ(std::isnan(found.at("out")[row * 16]), row >= 70 && row < 100) << "row " << row;
    }
  }
}

TEST(AttentionPart, AQueryThatSeesNoKeyOfAPartKeepsItsBits) {
  const AttentionPartCase c{{.heads = 2, .kv_heads = 1, .dim = 16, .lengths = {20, 20, 20, 20}}, 2};
  auto test = c.forward(c.whole.inputs(5), 0, 1, false);
  test.inputs.tensors["out"] = random_normal(DType::kF32, c.rows() * c.whole.out_columns(), 1);
  test.inputs.tensors["log_sum_exp"] = random_normal(DType::kF32, 2 * c.rows(), 2);
  for (const CpuIsa isa : usable_isas()) {
    const Execution execution = execute_with_threads(isa, test);
    expect_exact(
        test.name, execution,
        {.tensors = {{"out", test.inputs.at("out")}, {"log_sum_exp", test.inputs.at("log_sum_exp")}}, .state = {}});
  }
}

TEST(AttentionPart, ScratchOfTheSizeAskedForIsEnoughAndLessIsRefused) {
  Backend& backend = cpu_backend(CpuIsa::kAvx512Bf16, 2);
  for (const AttentionPartCase& c : attention_part_cases()) {
    const int last = c.ranks - 1;
    auto forward = c.forward(c.whole.inputs(7), last, 0, true);
    auto backward = c.backward(c.whole.backward(7).inputs, last, 0, true);
    const Execution out = execute(backend, forward);
    const Execution gradient = execute(backend, backward);
    const int64_t forward_bytes =
        backend.sizes().attention_part_forward_scratch_bytes(c.whole.shape(), c.rows(), c.whole.dtype);
    const int64_t backward_bytes =
        backend.sizes().attention_part_backward_scratch_bytes(c.whole.shape(), c.rows(), c.whole.dtype);
    forward.op.scratch = shape_only(DType::kU8, {forward_bytes});
    backward.op.scratch = shape_only(DType::kU8, {backward_bytes});
    EXPECT_EQ(execute(backend, forward).bytes.at("out"), out.bytes.at("out")) << forward.name;
    EXPECT_EQ(execute(backend, backward).bytes.at("dkeys_values"), gradient.bytes.at("dkeys_values")) << forward.name;
    forward.op.scratch = shape_only(DType::kU8, {forward_bytes - 1});
    backward.op.scratch = shape_only(DType::kU8, {backward_bytes - 1});
    EXPECT_THROW(execute(backend, forward), InternalError);
    EXPECT_THROW(execute(backend, backward), InternalError);
  }
}

TEST(AttentionPart, ReferencesOfAllPartsAreOneFunctionAndItsDerivative) {
  const auto run = [](const auto& test) { return reference::evaluate<double>(test.op, test.inputs); };
  for (const auto& [window, ranks] : {std::pair(0, 2), {3, 2}, {0, 3}, {5, 1}}) {
    const AttentionPartCase c{{.heads = 4,
                               .kv_heads = 2,
                               .dim = 3,
                               .window = window,
                               .lengths = {5, 1, 4},
                               .tail_rows = 2,
                               .dtype = DType::kF64,
                               .has_alibi = ranks == 2},
                              ranks};
    const auto forward = c.whole.forward(8);
    Values inputs = c.whole.backward(8).inputs;
    const Values joined = join_forward(c, forward.inputs, run);
    expect_near_all("out", joined.at("out"), reference::evaluate<double>(forward.op, forward.inputs).at("out"), 1e-14);
    for (const auto& [name, values] : joined.tensors) inputs.tensors[name] = values;
    expect_gradient("dqkv", forward.inputs.at("qkv"), join_backward(c, inputs, run).at("dqkv"),
                    [&](const std::vector<double>& qkv) {
                      Values moved = forward.inputs;
                      moved.tensors["qkv"] = qkv;
                      return dot(join_forward(c, moved, run).at("out"), inputs.at("dout"));
                    });
  }
}

}  // namespace
}  // namespace litespark::test
