// SPDX-License-Identifier: Apache-2.0
// Every form of AdamW against the f32 one: the arithmetic is the same, only what is read and written differs, so the
// results must agree bit for bit once they are rounded as the form says.
#pragma once

#include <string>

#include "core/bf16_rounding.h"
#include "support/op_case.h"

namespace litespark::test {

/// f32 everywhere, with a bf16 copy of the master when `has_weight`.
inline OpCase<op::AdamW<Tensor>> adamw_case(int64_t size, bool has_weight) {
  const Tensor flat = shape_only(DType::kF32, {size});
  OpCase<op::AdamW<Tensor>> test{.name = std::to_string(size),
                                 .op = {.master = flat,
                                        .first_moment = flat,
                                        .second_moment = flat,
                                        .weight = has_weight ? shape_only(DType::kBF16, {size}) : Tensor{},
                                        .remainder = {},
                                        .gradient = flat,
                                        .state = state_shape(),
                                        .abs_max = {},
                                        .weight_decay = 0.1,
                                        .seed = 0x123456789abcdefu,
                                        .first_element = 4096},
                                 .inputs = {}};
  fill_at_random(test, 18);
  for (double& value : test.inputs.tensors["second_moment"]) value = round_to(DType::kF32, value * value);
  test.inputs.state = {.learning_rate = 3e-3f,
                       .rng_counter = 7,
                       .gradient_scale = 0.125f,
                       .bias_correction1 = 0.3f,
                       .bias_correction2 = 0.02f};
  return test;
}

struct AdamWForm {
  op::WeightForm weights = op::WeightForm::kMaster;
  DType moments = DType::kF32;
  DType gradient = DType::kF32;

  std::string name() const {
    return "form " + std::to_string(static_cast<int>(weights)) + ", moments " + std::string(dtype_name(moments)) +
           ", gradient " + std::string(dtype_name(gradient));
  }
};

inline std::vector<AdamWForm> adamw_forms() {
  std::vector<AdamWForm> forms;
  for (const auto weights : {op::WeightForm::kMaster, op::WeightForm::kSplit, op::WeightForm::kStochastic}) {
    for (const DType moments : {DType::kF32, DType::kBF16}) {
      for (const DType gradient : {DType::kF32, DType::kBF16}) forms.push_back({weights, moments, gradient});
    }
  }
  return forms;
}

/// The f32 case whose inputs every tensor of `form` can hold.
inline OpCase<op::AdamW<Tensor>> plain_case_for(const AdamWForm& form, int64_t size) {
  auto test = adamw_case(size, true);
  const auto round_all = [&](const char* name, DType dtype) {
    for (double& value : test.inputs.tensors[name]) value = round_to(dtype, value);
  };
  round_all("first_moment", form.moments);
  round_all("second_moment", form.moments);
  round_all("gradient", form.gradient);
  if (form.weights == op::WeightForm::kStochastic) round_all("master", DType::kBF16);
  return test;
}

inline OpCase<op::AdamW<Tensor>> in_form(OpCase<op::AdamW<Tensor>> test, const AdamWForm& form) {
  const Shape shape = test.op.master.shape;
  test.name += " " + form.name();
  test.op.first_moment = test.op.second_moment = shape_only(form.moments, shape);
  test.op.gradient = shape_only(form.gradient, shape);
  if (form.weights == op::WeightForm::kMaster) return test;
  const std::vector<double> master = test.inputs.at("master");
  test.op.master = {};
  test.inputs.tensors.erase("master");
  test.inputs.tensors["weight"] = master;
  if (form.weights == op::WeightForm::kStochastic) return test;
  test.op.remainder = shape_only(DType::kU16, shape);
  test.inputs.tensors["remainder"] = master;
  for (size_t i = 0; i < master.size(); ++i) {
    const SplitFloat split = split_float(static_cast<float>(master[i]));
    test.inputs.tensors["weight"][i] = static_cast<double>(to_float(split.weight));
    test.inputs.tensors["remainder"][i] = static_cast<double>(split.remainder);
  }
  return test;
}

/// The f32 step's outputs as `form` must hold them.
inline Values expected_in_form(const OpCase<op::AdamW<Tensor>>& plain, const Execution& execution,
                               const AdamWForm& form) {
  Values expected = execution.outputs;
  std::vector<double>& master = expected.tensors["master"];
  std::vector<double>& weight = expected.tensors["weight"];
  std::vector<double> remainder = master;
  for (size_t i = 0; i < master.size(); ++i) {
    const auto element = static_cast<uint64_t>(plain.op.first_element) + i;
    const auto noise = [&](NoiseUse use) {
      return rounding_noise(plain.op.seed, plain.inputs.state.rng_counter, use, element / 4)[element % 4];
    };
    const auto round = [](double value, uint32_t bits) {
      return static_cast<double>(to_float(to_bf16_stochastic(static_cast<float>(value), static_cast<uint16_t>(bits))));
    };
    if (form.moments == DType::kBF16) {
      double& first = expected.tensors["first_moment"][i];
      double& second = expected.tensors["second_moment"][i];
      first = round(first, noise(NoiseUse::kMoments));
      second = round(second, noise(NoiseUse::kMoments) >> 16);
    }
    const SplitFloat split = split_float(static_cast<float>(master[i]));
    weight[i] = static_cast<double>(to_float(split.weight));
    remainder[i] = static_cast<double>(split.remainder);
    if (form.weights == op::WeightForm::kStochastic) weight[i] = round(master[i], noise(NoiseUse::kWeights));
  }
  if (form.weights == op::WeightForm::kSplit) expected.tensors["remainder"] = remainder;
  if (form.weights != op::WeightForm::kMaster) expected.tensors.erase("master");
  return expected;
}

/// `execute(case) -> Execution` runs one case on a backend.
template <class Execute>
void expect_forms_agree(const Execute& execute) {
  for (const AdamWForm& form : adamw_forms()) {
    for (const int64_t size : {1, 3, 5, 16, 17, 1000, 50001}) {
      const auto plain = plain_case_for(form, size);
      const Values expected = expected_in_form(plain, execute(plain), form);
      const auto test = in_form(plain, form);
      const Execution execution = execute(test);
      for (const auto& [name, values] : expected.tensors) {
        ASSERT_EQ(execution.outputs.at(name), values) << test.name << " " << name;
      }
    }
  }
}

}  // namespace litespark::test
