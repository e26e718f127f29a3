// SPDX-License-Identifier: Apache-2.0
// Forward attention: the kernel error rule on every instruction set, documents that never meet, odd values.
#include <limits>

#include "ops/attention_cases.h"
#include "ops/backend.h"
#include "ops/cpu_conformance.h"

namespace litespark::test {
namespace {

TEST(Attention, ForwardKeepsTheErrorRule) {  // fault:C7, fault:C8
  for (const AttentionCase& c : attention_cases()) {
    const auto test = c.forward(1);
    const Values truth = reference::evaluate<double>(test.op, test.inputs);
    const Values plain = reference::evaluate<float>(test.op, test.inputs);
    for (const CpuIsa isa : usable_isas()) {
      expect_kernel_rule(test.name, execute_with_threads(isa, test), truth, plain);
    }
  }
}

// Press, Smith and Lewis 2022, section 3: 8 heads have 1/2, 1/4, ... 1/256, 16 heads 2^-0.5, 2^-1, ... 2^-8; their
// program gives 12 heads those of 8 and every other one of 16.
TEST(Attention, SlopesOfAlibiAreThoseOfThePaper) {
  for (int head = 0; head < 8; ++head) EXPECT_EQ(op::alibi_slope(head, 8), std::exp2(-1.0f - static_cast<float>(head)));
  for (int head = 0; head < 16; ++head) EXPECT_EQ(op::alibi_log2_slope(head, 16), -0.5 * (head + 1));
  for (int head = 0; head < 8; ++head) EXPECT_EQ(op::alibi_log2_slope(head, 12), op::alibi_log2_slope(head, 8));
  for (int head = 8; head < 12; ++head) EXPECT_EQ(op::alibi_log2_slope(head, 12), -0.5 - (head - 8));
  EXPECT_EQ(op::alibi_log2_slope(0, 1), -8);
}

// A query whose keys are all alike looks at them by distance alone.
TEST(Attention, AlibiWeighsEqualKeysByTheirDistance) {
  const AttentionCase c{.heads = 3, .kv_heads = 1, .dim = 16, .lengths = {100}, .has_alibi = true};
  auto test = c.forward(1);
  std::vector<double>& qkv = test.inputs.tensors["qkv"];
  const size_t columns = static_cast<size_t>(c.qkv_columns());
  for (size_t row = 0; row < 100; ++row) {
    for (size_t d = 0; d < 16; ++d) {
      qkv[row * columns + 48 + d] = 0.5;                                    // the key
      qkv[row * columns + 64 + d] = d == 0 ? static_cast<double>(row) : 0;  // its value: the position
    }
  }
  for (const CpuIsa isa : usable_isas()) {
    const std::vector<double> out = execute_with_threads(isa, test).outputs.at("out");
    for (int head = 0; head < 3; ++head) {
      double weighted = 0;
      double total = 0;
      for (int key = 0; key < 100; ++key) {
        const double weight = std::exp(-std::exp2(op::alibi_log2_slope(head, 3)) * (99 - key));
        weighted += weight * key;
        total += weight;
      }
      EXPECT_NEAR(out[99 * 48 + static_cast<size_t>(head) * 16], weighted / total, 1e-3) << "head " << head;
    }
  }
}

TEST(Attention, HeadsThatAreOffAreNeitherReadNorAnythingButZero) {
  for (const AttentionCase& c : attention_cases()) {
    if (c.off_heads.empty()) continue;
    const auto test = c.forward(5);
    auto spoilt = test;
    spoil_off_heads(c, spoilt);
    for (const CpuIsa isa : usable_isas()) {
      const Execution clean = execute(cpu_backend(isa, 2), test);
      const Execution execution = execute(cpu_backend(isa, 2), spoilt);
      EXPECT_EQ(execution.bytes.at("out"), clean.bytes.at("out")) << test.name;
      EXPECT_EQ(execution.bytes.at("log_sum_exp"), clean.bytes.at("log_sum_exp")) << test.name;
      for (const int head : c.off_heads) {
        for (int64_t row = 0; row < c.rows(); ++row) {
          ASSERT_EQ(execution.outputs.at("log_sum_exp")[static_cast<size_t>(head * c.rows() + row)], 0.0);
          ASSERT_EQ(execution.outputs.at("out")[static_cast<size_t>(row * c.out_columns() + head * c.dim)], 0.0);
        }
      }
    }
  }
}

TEST(Attention, HeadsThatAreOnKeepTheBitsOfACallWithoutGates) {
  AttentionCase c{.heads = 6, .kv_heads = 2, .dim = 32, .lengths = {140}, .dtype = DType::kBF16};
  const Execution whole = execute(cpu_backend(usable_isas().back(), 2), c.forward(6));
  c.off_heads = {0, 4};
  const Execution gated = execute(cpu_backend(usable_isas().back(), 2), c.forward(6));
  for (size_t i = 0; i < whole.outputs.at("out").size(); ++i) {
    const auto head = static_cast<int>(i) % 192 / 32;
    if (!c.gates().is_on(head)) continue;
    ASSERT_EQ(gated.outputs.at("out")[i], whole.outputs.at("out")[i]) << "head " << head;
  }
}

TEST(Attention, GatesFindHeadsInOrder) {
  op::HeadGates gates;
  EXPECT_EQ(gates.nth_on(64, 5), 69);
  for (const int head : {0, 64, 65, 70, 255}) gates.switch_off(head);
  EXPECT_EQ(gates.num_on(0, 256), 251);
  EXPECT_EQ(gates.num_on(64, 8), 5);
  EXPECT_EQ(gates.nth_on(0, 0), 1);
  EXPECT_EQ(gates.nth_on(64, 0), 66);
  EXPECT_EQ(gates.nth_on(64, 4), 71);
  EXPECT_TRUE(gates.is_on(300));
}

TEST(Attention, LargeLogitsStayFiniteAndRight) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const AttentionCase c{.heads = 2, .kv_heads = 1, .dim = 32, .lengths = {130}, .dtype = dtype, .magnitude = 12};
    const auto test = c.forward(2);
    const Values truth = reference::evaluate<double>(test.op, test.inputs);
    const Values plain = reference::evaluate<float>(test.op, test.inputs);
    for (const CpuIsa isa : usable_isas()) expect_kernel_rule(test.name, execute_with_threads(isa, test), truth, plain);
  }
}

TEST(Attention, RowsPastTheLastDocumentAreZero) {
  const AttentionCase c{.heads = 2, .kv_heads = 1, .dim = 8, .lengths = {70}, .tail_rows = 60, .spare_documents = 2};
  for (const CpuIsa isa : usable_isas()) {
    const Execution execution = execute_with_threads(isa, c.forward(3));
    const std::vector<double>& out = execution.outputs.at("out");
    const std::vector<double>& log_sum_exp = execution.outputs.at("log_sum_exp");
    for (int64_t row = 70; row < c.rows(); ++row) {
      for (int64_t column = 0; column < c.out_columns(); ++column) {
        ASSERT_EQ(out[static_cast<size_t>(row * c.out_columns() + column)], 0.0);
      }
      for (int64_t head = 0; head < 2; ++head) ASSERT_EQ(log_sum_exp[static_cast<size_t>(head * c.rows() + row)], 0.0);
    }
  }
}

TEST(Attention, NoDocumentsGiveZeros) {
  const AttentionCase c{.heads = 1, .kv_heads = 1, .dim = 4, .lengths = {}, .tail_rows = 5, .spare_documents = 1};
  for (const CpuIsa isa : usable_isas()) {
    const Execution execution = execute_with_threads(isa, c.forward(3));
    for (const double value : execution.outputs.at("out")) ASSERT_EQ(value, 0.0);
  }
}

// report:B13
TEST(Attention, ChangingOneDocumentLeavesTheOthersBitsAlone) {
  const AttentionCase c{.heads = 6, .kv_heads = 2, .dim = 16, .lengths = {77, 90, 40}};
  for (const CpuIsa isa : usable_isas()) {
    auto test = c.forward(4);
    const Execution before = execute_with_threads(isa, test);
    std::vector<double>& qkv = test.inputs.tensors["qkv"];
    for (size_t i = static_cast<size_t>(77 * c.qkv_columns()); i < static_cast<size_t>(167 * c.qkv_columns()); ++i) {
      qkv[i] = i % 5 == 0 ? std::numeric_limits<double>::infinity() : -3.0 * qkv[i];
    }
    const Execution after = execute_with_threads(isa, test);
    const std::vector<double>& old_out = before.outputs.at("out");
    const std::vector<double>& new_out = after.outputs.at("out");
    for (int64_t row = 0; row < c.rows(); ++row) {
      if (row >= 77 && row < 167) continue;
      for (int64_t column = 0; column < c.out_columns(); ++column) {
        const size_t i = static_cast<size_t>(row * c.out_columns() + column);
        ASSERT_EQ(old_out[i], new_out[i]) << "row " << row;
      }
    }
  }
}

TEST(Attention, PackedDocumentsEqualSeparateOnes) {
  const AttentionCase packed{.heads = 4, .kv_heads = 2, .dim = 16, .lengths = {65, 1, 100}};
  const auto test = packed.forward(5);
  for (const CpuIsa isa : usable_isas()) {
    const std::vector<double> together = execute_with_threads(isa, test).outputs.at("out");
    int64_t row = 0;
    for (const int length : packed.lengths) {
      AttentionCase alone = packed;
      alone.lengths = {length};
      auto one = alone.forward(5);
      const auto first = test.inputs.at("qkv").begin() + row * packed.qkv_columns();
      one.inputs.tensors["qkv"].assign(first, first + length * packed.qkv_columns());
      const auto out = together.begin() + row * packed.out_columns();
      EXPECT_EQ(execute_with_threads(isa, one).outputs.at("out"),
                std::vector<double>(out, out + length * packed.out_columns()));
      row += length;
    }
  }
}

TEST(Attention, ANanReachesTheQueriesThatSeeItAndNoOther) {
  const AttentionCase c{.heads = 1, .kv_heads = 1, .dim = 16, .lengths = {100}};
  auto test = c.forward(6);
  // A key: element 0 of head 1 in row 70.
  test.inputs.tensors["qkv"][static_cast<size_t>(70 * c.qkv_columns() + 16)] = std::numeric_limits<double>::quiet_NaN();
  for (const CpuIsa isa : usable_isas()) {
    const std::vector<double> out = execute_with_threads(isa, test).outputs.at("out");
    for (size_t row = 0; row < 100; ++row) ASSERT_EQ(std::isnan(out[row * 16]), row >= 70) << "row " << row;
  }
}

TEST(Attention, ScratchOfTheSizeAskedForIsEnoughAndLessIsRefused) {
  for (const AttentionCase& c : attention_cases()) {
    auto test = c.forward(7);
    const Execution without = execute(cpu_backend(CpuIsa::kAvx512Bf16, 2), test);
    Backend& backend = cpu_backend(CpuIsa::kAvx512Bf16, 2);
    const int64_t bytes = backend.sizes().attention_forward_scratch_bytes(c.shape(), c.rows(), c.dtype);
    test.op.scratch = shape_only(DType::kU8, {bytes});
    EXPECT_EQ(execute(backend, test).bytes.at("out"), without.bytes.at("out")) << test.name;
    test.op.scratch = shape_only(DType::kU8, {bytes - 1});
    EXPECT_THROW(execute(backend, test), InternalError);
  }
}

}  // namespace
}  // namespace litespark::test
