// SPDX-License-Identifier: Apache-2.0
#include "model/weights.h"

#include <algorithm>

#include "core/rng.h"
#include "core/threads.h"
#include "io/hf_folder.h"

namespace litespark {
namespace {

/// Streams below this number belong to other uses of the seed.
constexpr uint64_t kFirstWeightStream = uint64_t{1} << 40;

/// Values that are worth a thread.
constexpr int64_t kInitGrain = 100000;

std::vector<float> initial_values(const ParamSpec& spec, uint64_t seed, uint64_t stream) {
  const auto count = static_cast<size_t>(spec.shape.num_elements());
  if (spec.init == ParamInit::kOnes) return std::vector<float>(count, 1.0f);
  std::vector<float> values(count, 0.0f);
  if (spec.init == ParamInit::kZeros) return values;
  const RandomStream random(seed, kFirstWeightStream + stream);
  parallel_stretches(spec.shape.num_elements(), kInitGrain, [&](int64_t first, int64_t end) {
    for (auto i = static_cast<size_t>(first); i < static_cast<size_t>(end); ++i) {
      values[i] = static_cast<float>(random.normal(i) * spec.init_std);
    }
  });
  return values;
}

std::vector<float> read_floats(const Executor& executor, TensorId id) {
  std::vector<float> values(static_cast<size_t>(executor.program().tensors[id].shape.num_elements()));
  executor.read(id, values.data(), static_cast<int64_t>(values.size() * sizeof(float)));
  return values;
}

}  // namespace

void set_parameter(Executor& executor, int64_t param, const std::vector<float>& values) {
  const ParamTensors& tensors = executor.program().param_tensors.at(static_cast<size_t>(param));
  executor.write(tensors.master, values.data(), static_cast<int64_t>(values.size() * sizeof(float)));
}

std::vector<float> get_parameter(const Executor& executor, int64_t param) {
  return read_floats(executor, executor.program().param_tensors.at(static_cast<size_t>(param)).master);
}

std::vector<float> get_gradient(const Executor& executor, int64_t param) {
  return read_floats(executor, executor.program().param_tensors.at(static_cast<size_t>(param)).gradient);
}

void pack_weights(Executor& executor) {
  executor.run(Phase::kPack);
}

void load_weights(Executor& executor, const std::filesystem::path& folder) {
  HfFolder weights = HfFolder::open(folder);
  weights.check(executor.program().config, executor.program().params);
  const std::vector<ParamSpec>& params = executor.program().params.params;
  for (size_t index = 0; index < params.size(); ++index) {
    std::vector<float> values(static_cast<size_t>(params[index].shape.num_elements()));
    weights.read_parameter(params[index], values);
    set_parameter(executor, static_cast<int64_t>(index), values);
  }
  pack_weights(executor);
}

void initialise_weights(Executor& executor, uint64_t seed) {
  const std::vector<ParamSpec>& params = executor.program().params.params;
  for (size_t index = 0; index < params.size(); ++index) {
    set_parameter(executor, static_cast<int64_t>(index), initial_values(params[index], seed, index));
  }
  pack_weights(executor);
}

}  // namespace litespark
