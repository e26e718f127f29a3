// SPDX-License-Identifier: Apache-2.0
// Cross-entropy: the kernel error rule, extreme logits, ignored and bad labels, independence of the chunking.
#include <cmath>

#include "ops/cpu_conformance.h"
#include "ops/cut_loss_cases.h"
#include "ops/loss_cases.h"
#include "reference/loss.h"
#include "support/finite_differences.h"

namespace litespark::test {
namespace {

OpCase<op::CrossEntropy<Tensor>> one_row(std::vector<double> logits, int label) {
  auto test = loss_case({.rows = 1,
                         .vocab = static_cast<int64_t>(logits.size()),
                         .dtype = DType::kF32,
                         .z_coefficient = 0,
                         .has_log_sum_exp = true,
                         .write_gradient = true,
                         .scale = 1});
  test.inputs.tensors["logits"] = std::move(logits);
  test.inputs.tensors["labels"] = {static_cast<double>(label)};
  return test;
}

TEST(Loss, CrossEntropyKeepsTheErrorRule) {
  for (const LossCase& c : kLossCases) {
    const auto test = loss_case(c);
    expect_kernel_rule_on_cpu(test, reference::evaluate<double>(test.op, test.inputs),
                              reference::evaluate<float>(test.op, test.inputs));
    EXPECT_EQ(execute_on_cpu(test).outputs.state.bad_tokens, 0);
  }
}

// report:B26: logits of +-1e4 overflow a naive exp; one-hot rows have a loss of exactly 0.
TEST(Loss, ExtremeLogitsGiveExactLossesAndFiniteGradients) {
  std::vector<double> one_hot(40, -1e4);
  one_hot[7] = 1e4;
  const Execution right = execute_on_cpu(one_row(one_hot, 7));
  EXPECT_EQ(right.outputs.at("losses")[0], 0.0);
  for (const double slope : right.outputs.at("logits")) EXPECT_EQ(slope, 0.0);
  const Execution wrong = execute_on_cpu(one_row(one_hot, 8));
  EXPECT_EQ(wrong.outputs.at("losses")[0], 2e4);
  EXPECT_EQ(wrong.outputs.at("logits")[7], 1.0);
  EXPECT_EQ(wrong.outputs.at("logits")[8], -1.0);
  for (const double level : {-1e4, 0.0, 1e4}) {
    const Execution equal = execute_on_cpu(one_row(std::vector<double>(64, level), 3));
    EXPECT_NEAR(equal.outputs.at("losses")[0], std::log(64.0), level == 0.0 ? 1e-6 : 1e-3);
    EXPECT_NEAR(equal.outputs.at("logits")[0], 1.0 / 64, 1e-8);
    EXPECT_NEAR(equal.outputs.at("logits")[3], 1.0 / 64 - 1, 1e-7);
  }
}

TEST(Loss, NanLogitsGiveANanLoss) {
  std::vector<double> logits(20, 1.0);
  logits[17] = NAN;
  const Execution execution = execute(cpu_backend(usable_isas().back(), 1), one_row(logits, 2));
  EXPECT_TRUE(std::isnan(execution.outputs.at("losses")[0]));
  EXPECT_TRUE(std::isnan(execute(cpu_backend(CpuIsa::kGeneric, 1), one_row(logits, 2)).outputs.at("losses")[0]));
}

// fault:C11: nothing supervised is a loss of 0 and a gradient of 0, not 0 / 0.
TEST(Loss, IgnoredRowsHaveNoLossAndNoGradient) {
  auto test = loss_case(kLossCases[4]);
  std::fill(test.inputs.tensors["labels"].begin(), test.inputs.tensors["labels"].end(), op::kIgnoredLabel);
  const Execution execution = execute_on_cpu(test);
  for (const double loss : execution.outputs.at("losses")) ASSERT_EQ(loss, 0.0);
  for (const double slope : execution.outputs.at("logits")) ASSERT_EQ(slope, 0.0);
  EXPECT_EQ(execution.outputs.state.bad_tokens, 0);
}

// fault:D18
TEST(Loss, BadLabelsAreCountedAndTreatedAsIgnored) {
  auto test = loss_case(kLossCases[1]);
  test.inputs.tensors["labels"] = {7, -1, 2147483647};
  const Execution execution = execute_on_cpu(test);
  EXPECT_EQ(execution.outputs.state.bad_tokens, 3);
  for (const double loss : execution.outputs.at("losses")) EXPECT_EQ(loss, 0.0);
  for (const double slope : execution.outputs.at("logits")) EXPECT_EQ(slope, 0.0);
}

// report:B27: cutting the rows into chunks of any size changes no bit.
TEST(Loss, ChunkingChangesNoBit) {
  const LossCase whole{.rows = 24,
                       .vocab = 100,
                       .dtype = DType::kF32,
                       .z_coefficient = 1e-3f,
                       .has_log_sum_exp = true,
                       .write_gradient = true,
                       .scale = 3};
  const auto test = loss_case(whole);
  const Execution all = execute_on_cpu(test);
  for (const int64_t chunk_rows : {1, 5, 7, 23}) {
    std::vector<double> losses;
    std::vector<double> gradient;
    for (int64_t first = 0; first < whole.rows; first += chunk_rows) {
      LossCase part = whole;
      part.rows = std::min(chunk_rows, whole.rows - first);
      auto chunk = loss_case(part);
      const auto cut = [&](const char* name, int64_t width) {
        const auto& source = test.inputs.at(name);
        chunk.inputs.tensors[name].assign(source.begin() + first * width, source.begin() + (first + part.rows) * width);
      };
      cut("logits", whole.vocab);
      cut("labels", 1);
      const Execution execution = execute(cpu_backend(usable_isas().back(), 2), chunk);
      const auto append = [&](std::vector<double>& to, const char* name) {
        const auto& from = execution.outputs.at(name);
        to.insert(to.end(), from.begin(), from.end());
      };
      append(losses, "losses");
      append(gradient, "logits");
    }
    EXPECT_EQ(losses, all.outputs.at("losses")) << chunk_rows;
    EXPECT_EQ(gradient, all.outputs.at("logits")) << chunk_rows;
  }
}

TEST(Loss, RanksThatShareTheVocabularyKeepTheErrorRuleOfOne) {
  for (const CutLossCase& c : kCutLossCases) {
    const auto test = loss_case(c.whole);
    const Values truth = reference::evaluate<double>(test.op, test.inputs);
    const Values plain = reference::evaluate<float>(test.op, test.inputs);
    for (const CpuIsa isa : usable_isas()) {
      const Execution found = join_cut_loss(cpu_backend(isa, 2), c, test.inputs);
      expect_kernel_rule(test.name + ", ranks: " + std::to_string(c.ranks), found, truth, plain);
      EXPECT_EQ(found.outputs.state.bad_tokens, 0);
    }
  }
}

// report:B26, fault:D18, fault:C11: as the uncut op.
TEST(Loss, RanksThatShareTheVocabularyAgreeOnExtremeBadAndIgnoredRows) {
  const CutLossCase c{.whole = {5, 40, DType::kF32, 0, true, true, 1}, .ranks = 3, .stored = 16};
  auto test = loss_case(c.whole);
  test.inputs.tensors["logits"].assign(200, -1e4);
  for (size_t row = 0; row < 5; ++row) test.inputs.tensors["logits"][row * 40 + 20] = 1e4;
  test.inputs.tensors["labels"] = {20, 3, 40, -1, op::kIgnoredLabel};
  Backend& backend = cpu_backend(usable_isas().back(), 1);
  const Execution found = join_cut_loss(backend, c, test.inputs);
  EXPECT_EQ(found.outputs.at("losses"), (std::vector<double>{0, 2e4, 0, 0, 0}));
  EXPECT_EQ(found.outputs.state.bad_tokens, 2);
  std::vector<double> gradient(200);
  gradient[40 + 20] = 1;
  gradient[40 + 3] = -1;
  EXPECT_EQ(found.outputs.at("logits"), gradient);
  test.inputs.tensors["logits"][2 * 40 + 1] = NAN;
  test.inputs.tensors["logits"][7] = NAN;
  EXPECT_TRUE(std::isnan(join_cut_loss(backend, c, test.inputs).outputs.at("losses")[0]));
}

TEST(Loss, ReduceSumsScoredRowsOnly) {
  const auto test = loss_reduce_case(1000);
  const StepState state = execute_on_cpu(test).outputs.state;
  const StepState expected = reference::evaluate<double>(test.op, test.inputs).state;
  EXPECT_EQ(state.supervised_tokens, 100 + 666);
  EXPECT_EQ(state.supervised_tokens, expected.supervised_tokens);
  EXPECT_NEAR(state.loss_sum, expected.loss_sum, 1e-10);
  EXPECT_NEAR(state.z_loss_sum, expected.z_loss_sum, 1e-10);
}

TEST(Loss, ReferenceGradientIsTheDerivativeOfItsLoss) {  // fault:C10
  const LossCase c{.rows = 3,
                   .vocab = 5,
                   .dtype = DType::kF64,
                   .z_coefficient = 0.1f,
                   .has_log_sum_exp = true,
                   .write_gradient = true,
                   .scale = 1};
  auto test = loss_case(c);
  test.inputs.tensors["labels"] = {2, op::kIgnoredLabel, 4};
  expect_gradient("logits", test.inputs.at("logits"), reference::evaluate<double>(test.op, test.inputs).at("logits"),
                  [&](const std::vector<double>& logits) {
                    Values inputs = test.inputs;
                    inputs.tensors["logits"] = logits;
                    const Values out = reference::evaluate<double>(test.op, inputs);
                    const auto& lse = out.at("log_sum_exp");
                    const double z = static_cast<double>(c.z_coefficient);
                    return out.at("losses")[0] + out.at("losses")[2] + z * (lse[0] * lse[0] + lse[2] * lse[2]);
                  });
}

}  // namespace
}  // namespace litespark::test
