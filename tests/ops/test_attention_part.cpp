// SPDX-License-Identifier: Apache-2.0
// Attention that context ranks share: each part keeps the kernel error rule, and all parts make up whole attention and
// its gradient.
#include <cmath>
#include <limits>

#include "ops/attention_part_cases.h"
#include "support/finite_differences.h"
#include "support/tolerance.h"

namespace litespark::test {
namespace {

/// f32 statistics of the reference, as a kernel before this one would have left them.
Values rounded(const Values& values) {
  Values all;
  for (const auto& [name, numbers] : values.tensors) {
    for (const double number : numbers) all.tensors[name].push_back(round_to(DType::kF32, number));
  }
  return all;
}

/// What comes of bf16 operands has their rounding, though sums are left in f32: held to the rule as if they were bf16.
Execution in_dtype_of(const AttentionPartCase& c, Execution execution) {
  if (c.whole.dtype == DType::kF32) return execution;
  for (const char* name : {"out", "dqueries", "dkeys_values"}) {
    if (!execution.outputs.has(name)) continue;
    execution.dtypes[name] = DType::kBF16;
    for (double& value : execution.outputs.tensors[name]) value = round_to(DType::kBF16, value);
  }
  return execution;
}

/// The first rank and the last, whose chunks are furthest apart and next to each other.
std::vector<int> ranks_at_the_ends(const AttentionPartCase& c) {
  return c.ranks == 1 ? std::vector<int>{0} : std::vector<int>{0, c.ranks - 1};
}

/// The generic kernels are slow.
std::vector<CpuIsa> isas_for(const AttentionPartCase& c) {
  std::vector<CpuIsa> isas = usable_isas();
  if (c.whole.rows() > 200 && isas.size() > 1) isas.erase(isas.begin());
  return isas;
}

/// The rule with twice the largest error, since the gradient of a query that sees few keys is a difference of two sums
/// that are nearly one, and the plain loop adds both in one order; and with twice the root mean square where weights
/// are rounded to bf16 and not only what comes out. Small samples get two roundings.
void expect_gradient_rule(const std::string& name, const Execution& execution, const Values& truth,
                          const Values& plain) {
  for (const auto& [tensor, expected] : truth.tensors) {
    std::vector<double> rounded = plain.at(tensor);
    for (double& value : rounded) value = round_to(execution.dtypes.at(tensor), value);
    const ErrorStats ours = compare(execution.outputs.at(tensor), expected);
    const ErrorStats usual = compare(rounded, expected);
    const bool is_bf16 = execution.dtypes.at(tensor) == DType::kBF16;
    const double slack = (ours.count >= 256 ? 0x1p-23 : is_bf16 ? 0x1p-8 : 0x1p-22) * ours.largest_expected;
    EXPECT_EQ(ours.kind_mismatches, 0) << name << ": " << tensor;
    EXPECT_LE(ours.rms, (is_bf16 ? 2 : 1.5) * usual.rms + slack) << name << ": " << tensor;
    EXPECT_LE(ours.max_abs, 4 * usual.max_abs + slack) << name << ": " << tensor;
  }
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
    execute_on_threads(detect_cpu_isa(), c.forward(inputs, c.ranks - 1, 0, true));
    execute_on_threads(detect_cpu_isa(), c.backward(inputs, c.ranks - 1, 0, true));
  }
}

/// Reports numbers further apart than `limit` of the largest.
void expect_near_all(const std::string& name, const std::vector<double>& found, const std::vector<double>& expected,
                     double limit) {
  ASSERT_EQ(found.size(), expected.size()) << name;
  double largest = 0;
  double apart = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    largest = std::max(largest, std::abs(expected[i]));
    apart = std::max(apart, std::abs(found[i] - expected[i]));
    ASSERT_FALSE(std::isnan(found[i])) << name << " at " << i;
  }
  EXPECT_LE(apart, limit * largest) << name;
}

TEST(AttentionPart, PartsOfAllRanksMakeUpWholeAttention) {
  for (const AttentionPartCase& c : attention_part_cases()) {
    const bool is_bf16 = c.whole.dtype == DType::kBF16;
    const auto forward = c.whole.forward(3);
    const auto backward = c.whole.backward(3);
    const Values whole = reference::evaluate<double>(forward.op, forward.inputs);
    const Values gradient = reference::evaluate<double>(backward.op, backward.inputs);
    for (const CpuIsa isa : {isas_for(c).front(), detect_cpu_isa()}) {
      SCOPED_TRACE(c.name() + " on " + cpu_backend(isa, 2).name());
      const auto run = [&](const auto& test) { return execute(cpu_backend(isa, 2), test).outputs; };
      Values found = join_forward(c, forward.inputs, run);
      for (int64_t head = 0; head < c.whole.heads; ++head) {
        for (int64_t row = c.whole.document_rows(); row < c.whole.rows(); ++row) {
          double& nothing = found.tensors["log_sum_exp"][static_cast<size_t>(head * c.whole.rows() + row)];
          EXPECT_EQ(nothing, -std::numeric_limits<double>::infinity());
          nothing = 0;  // what whole attention leaves there
        }
      }
      expect_near_all("out", found.at("out"), whole.at("out"), is_bf16 ? 8e-3 : 2e-6);
      expect_near_all("log_sum_exp", found.at("log_sum_exp"), whole.at("log_sum_exp"), is_bf16 ? 8e-3 : 2e-6);
      expect_near_all("dqkv", join_backward(c, backward.inputs, run).at("dqkv"), gradient.at("dqkv"),
                      is_bf16 ? 8e-3 : 4e-6);
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
    const Execution execution = execute_on_threads(isa, test);
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
