// SPDX-License-Identifier: Apache-2.0
// The optimizer phase on the GPU: norm, decision, AdamW, with tails off the vectors.
#include <cmath>

#include "ops/adamw_forms.h"
#include "ops/cuda/cuda_conformance.h"
#include "ops/optimizer_cases.h"
#include "reference/optimizer.h"

namespace litespark::test {
namespace {

StepState decide(StepState state) {
  const OpCase<op::StepDecision<Tensor>> test{
      .name = "decision", .op = {.state = state_shape()}, .inputs = {.tensors = {}, .state = state}};
  return execute_on_cuda(test).outputs.state;
}

TEST(Optimizer, AdamWKeepsTheErrorRule) {
  for (const int64_t size : kAdamWSizes) {
    for (const bool has_weight : {false, true}) {
      const auto test = adamw_case(size, has_weight);
      const Execution execution = execute_on_cuda(test);
      expect_kernel_rule(test.name, execution, reference::evaluate<double>(test.op, test.inputs),
                         reference::evaluate<float>(test.op, test.inputs));
      if (has_weight) {
        for (size_t i = 0; i < execution.outputs.at("weight").size(); ++i) {
          const SplitFloat split = split_float(static_cast<float>(execution.outputs.at("master")[i]));
          ASSERT_EQ(execution.outputs.at("weight")[i], static_cast<double>(to_float(split.weight))) << test.name;
        }
      }
    }
  }
}

TEST(Optimizer, EveryFormGivesTheBitsOfTheF32StepRoundedAsItSays) {
  expect_forms_agree([](const auto& test) { return execute_on_cuda(test); });
}

TEST(Optimizer, SkippedStepChangesNothing) {
  auto test = adamw_case(103, true);
  test.inputs.state.skipped = 1;
  const Execution execution = execute_on_cuda(test);
  for (const char* name : {"master", "first_moment", "second_moment", "weight"}) {
    EXPECT_EQ(execution.outputs.at(name), test.inputs.at(name)) << name;
  }
}

TEST(Optimizer, SquareSumIsExactToDouble) {
  for (const int64_t size : {1, 3, 16383, 16384, 16385, 100000, 3000001}) {
    const auto test = square_sum_case(size);
    const double expected = reference::evaluate<double>(test.op, test.inputs).state.gradient_square_sum;
    EXPECT_NEAR(execute_on_cuda(test).outputs.state.gradient_square_sum / expected, 1.0, 1e-12) << size;
  }
}

TEST(Optimizer, SquareSumOfAPartCountsByItsFactor) {
  expect_square_sum_by_factor([](const auto& test) { return execute_on_cuda(test); }, 1e-12);
}

TEST(Optimizer, AdamWTakesAPartOfAGradientForTheWhole) {
  expect_part_to_stand_for_the_whole([](const auto& test) { return execute_on_cuda(test); });
}

TEST(Optimizer, SquareSumOfBf16GradientsIsThatOfTheirValues) {
  const auto sum_of = [](DType dtype) {
    return execute_on_cuda(bf16_values_square_sum_case(dtype)).outputs.state.gradient_square_sum;
  };
  EXPECT_EQ(sum_of(DType::kBF16), sum_of(DType::kF32));
}

TEST(Optimizer, DecisionAgreesWithTheReference) {
  std::vector<StepState> states(8, good_state());
  states[1].clip_norm = 0;
  states[2].clip_norm = 100;
  states[3].spike_limit = 1;
  states[4].bad_tokens = 1;
  states[5].loss_sum = NAN;
  states[6].gradient_square_sum = INFINITY;
  states[7].supervised_tokens = 0;
  for (size_t i = 0; i < states.size(); ++i) {
    const OpCase<op::StepDecision<Tensor>> test{
        .name = "decision", .op = {.state = state_shape()}, .inputs = {.tensors = {}, .state = states[i]}};
    const StepState expected = reference::evaluate<double>(test.op, test.inputs).state;
    const StepState state = decide(states[i]);
    EXPECT_EQ(state.skipped, expected.skipped) << i;
    EXPECT_EQ(state.skipped, i >= 3 ? 1u : 0u) << i;
    EXPECT_EQ(state.optimizer_steps, expected.optimizer_steps) << i;
    EXPECT_EQ(state.skipped_steps, expected.skipped_steps) << i;
    if (state.skipped != 0) continue;
    EXPECT_FLOAT_EQ(state.gradient_norm, expected.gradient_norm) << i;
    EXPECT_FLOAT_EQ(state.gradient_scale, expected.gradient_scale) << i;
    EXPECT_FLOAT_EQ(state.bias_correction1, expected.bias_correction1) << i;
    EXPECT_FLOAT_EQ(state.bias_correction2, expected.bias_correction2) << i;
  }
}

}  // namespace
}  // namespace litespark::test
