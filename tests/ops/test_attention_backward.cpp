// SPDX-License-Identifier: Apache-2.0
// Backward attention: the kernel error rule on every instruction set, documents that never meet, and the reference's
// own gradient against finite differences.
#include <limits>

#include "ops/attention_cases.h"
#include "ops/cpu_conformance.h"
#include "support/finite_differences.h"

namespace litespark::test {
namespace {

TEST(AttentionBackward, KeepsTheErrorRule) {
  for (const AttentionCase& c : attention_cases()) {
    const auto test = c.backward(1);
    const Values truth = reference::evaluate<double>(test.op, test.inputs);
    const Values plain = reference::evaluate<float>(test.op, test.inputs);
    for (const CpuIsa isa : usable_isas()) expect_kernel_rule(test.name, execute_with_threads(isa, test), truth, plain);
  }
}

TEST(AttentionBackward, HeadsThatAreOffAreNeitherReadNorGivenGradients) {
  for (const AttentionCase& c : attention_cases()) {
    if (c.off_heads.empty()) continue;
    const auto test = c.backward(5);
    auto spoilt = test;
    spoil_off_heads(c, spoilt);
    for (const CpuIsa isa : usable_isas()) {
      const Execution execution = execute(cpu_backend(isa, 2), spoilt);
      EXPECT_EQ(execution.bytes.at("dqkv"), execute(cpu_backend(isa, 2), test).bytes.at("dqkv")) << test.name;
      for (const int head : c.off_heads) {
        for (int64_t row = 0; row < c.rows(); ++row) {
          ASSERT_EQ(execution.outputs.at("dqkv")[static_cast<size_t>(row * c.qkv_columns() + head * c.dim)], 0.0);
        }
      }
    }
  }
}

TEST(AttentionBackward, LargeLogitsStayFiniteAndRight) {
  const AttentionCase c{.heads = 2, .kv_heads = 1, .dim = 32, .lengths = {130}, .magnitude = 12};
  const auto test = c.backward(2);
  const Values truth = reference::evaluate<double>(test.op, test.inputs);
  const Values plain = reference::evaluate<float>(test.op, test.inputs);
  for (const CpuIsa isa : usable_isas()) expect_kernel_rule(test.name, execute_with_threads(isa, test), truth, plain);
}

// report:B13
TEST(AttentionBackward, ChangingOneDocumentLeavesTheOthersBitsAlone) {
  const AttentionCase c{.heads = 6, .kv_heads = 2, .dim = 16, .lengths = {77, 90, 40}};
  for (const CpuIsa isa : usable_isas()) {
    auto test = c.backward(4);
    const std::vector<double> before = execute_with_threads(isa, test).outputs.at("dqkv");
    for (const auto& [name, columns] : {std::pair("qkv", c.qkv_columns()), std::pair("dout", c.out_columns())}) {
      std::vector<double>& values = test.inputs.tensors[name];
      for (size_t i = static_cast<size_t>(77 * columns); i < static_cast<size_t>(167 * columns); ++i) {
        values[i] = i % 5 == 0 ? std::numeric_limits<double>::infinity() : -3.0 * values[i];
      }
    }
    const std::vector<double> after = execute_with_threads(isa, test).outputs.at("dqkv");
    for (size_t i = 0; i < before.size(); ++i) {
      const int64_t row = static_cast<int64_t>(i) / c.qkv_columns();
      if (row >= 77 && row < 167) continue;
      ASSERT_EQ(before[i], after[i]) << "row " << row;
    }
  }
}

TEST(AttentionBackward, RowsPastTheLastDocumentAreZero) {
  const AttentionCase c{.heads = 2, .kv_heads = 1, .dim = 8, .lengths = {70}, .tail_rows = 66, .spare_documents = 2};
  for (const CpuIsa isa : usable_isas()) {
    const std::vector<double> dqkv = execute_with_threads(isa, c.backward(3)).outputs.at("dqkv");
    for (size_t i = static_cast<size_t>(70 * c.qkv_columns()); i < dqkv.size(); ++i) ASSERT_EQ(dqkv[i], 0.0);
  }
}

// fault:C11: a document of one token attends to itself alone, so its query and key get no gradient.
TEST(AttentionBackward, DocumentsOfOneTokenPassTheGradientToTheirValue) {
  const AttentionCase c{.heads = 2, .kv_heads = 2, .dim = 16, .lengths = {1, 1, 1}};
  const auto test = c.backward(5);
  for (const CpuIsa isa : usable_isas()) {
    const std::vector<double> dqkv = execute_with_threads(isa, test).outputs.at("dqkv");
    for (size_t row = 0; row < 3; ++row) {
      for (size_t i = 0; i < 32; ++i) {
        EXPECT_NEAR(dqkv[row * 96 + i], 0.0, 1e-5);
        EXPECT_NEAR(dqkv[row * 96 + 32 + i], 0.0, 1e-5);
        EXPECT_NEAR(dqkv[row * 96 + 64 + i], test.inputs.at("dout")[row * 32 + i], 1e-6);
      }
    }
  }
}

TEST(AttentionBackward, ScratchOfTheSizeAskedForIsEnoughAndLessIsRefused) {
  for (const AttentionCase& c : attention_cases()) {
    auto test = c.backward(7);
    Backend& backend = cpu_backend(CpuIsa::kAvx512Bf16, 2);
    const Execution without = execute(backend, test);
    const int64_t bytes = backend.sizes().attention_backward_scratch_bytes(c.shape(), c.rows(), c.dtype);
    test.op.scratch = shape_only(DType::kU8, {bytes});
    EXPECT_EQ(execute(backend, test).bytes.at("dqkv"), without.bytes.at("dqkv")) << test.name;
    test.op.scratch = shape_only(DType::kU8, {bytes - 1});
    EXPECT_THROW(execute(backend, test), InternalError);
  }
}

TEST(AttentionBackward, ReferenceIsTheDerivativeOfTheForwardReference) {  // fault:C10
  for (const auto& [window, has_alibi] : {std::pair(0, false), {3, false}, {0, true}, {3, true}}) {
    const AttentionCase c{.heads = 4,
                          .kv_heads = 2,
                          .dim = 3,
                          .window = window,
                          .lengths = {5, 1, 4},
                          .tail_rows = 1,
                          .dtype = DType::kF64,
                          .has_alibi = has_alibi};
    const auto forward = c.forward(8);
    const auto backward = c.backward(8);
    const auto loss = [&](const std::vector<double>& qkv) {
      Values inputs = forward.inputs;
      inputs.tensors["qkv"] = qkv;
      return dot(reference::evaluate<double>(forward.op, inputs).at("out"), backward.inputs.at("dout"));
    };
    Values inputs = backward.inputs;
    for (auto& [name, values] : reference::evaluate<double>(forward.op, forward.inputs).tensors) {
      inputs.tensors[name] = values;
    }
    expect_gradient("dqkv", forward.inputs.at("qkv"), reference::evaluate<double>(backward.op, inputs).at("dqkv"),
                    loss);
  }
}

}  // namespace
}  // namespace litespark::test
