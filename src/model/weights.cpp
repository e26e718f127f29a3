// SPDX-License-Identifier: Apache-2.0
#include "model/weights.h"

#include <algorithm>

#include "core/bf16_rounding.h"
#include "core/error.h"
#include "core/rng.h"
#include "core/threads.h"
#include "io/hf_folder.h"
#include "spec/param_cut.h"

namespace litespark {
namespace {

/// Streams below this number belong to other uses of the seed.
constexpr uint64_t kFirstWeightStream = uint64_t{1} << 40;

/// Values that are worth a thread: drawn from a normal distribution, or converted.
constexpr int64_t kInitGrain = 100000;
constexpr int64_t kConvertGrain = 4000000;

/// Values drawn at a time: what stands beside the model while its weights are made.
constexpr int64_t kInitPiece = int64_t{1} << 20;

/// Elements [first, first + values.size()) of a parameter at the start of a training from scratch. Each is drawn by its
/// place in the whole parameter, so that all ways to cut it begin with the same bits.
void draw_initial_values(const ParamSpec& spec, const RandomStream& random, int64_t first, std::span<float> values) {
  if (spec.init == ParamInit::kZeros) return std::fill(values.begin(), values.end(), 0.0f);
  parallel_stretches(std::ssize(values), kInitGrain, [&](int64_t begin, int64_t end) {
    std::fill(values.begin() + begin, values.begin() + end, 0.0f);
    for_cut_stretches(spec, first + begin, first + end, [&](int64_t at, int64_t whole_at, int64_t count) {
      for (int64_t i = 0; i < count; ++i) {
        const double drawn =
            spec.init == ParamInit::kOnes ? 1.0 : random.normal(static_cast<uint64_t>(whole_at + i)) * spec.init_std;
        values[static_cast<size_t>(at + i - first)] = static_cast<float>(drawn);
      }
    });
  });
}

/// Calls body(first, end) for stretches of `count` elements, on several threads where that pays.
template <class Body>
void for_stretches(size_t count, const Body& body) {
  parallel_stretches(static_cast<int64_t>(count), kConvertGrain,
                     [&](int64_t first, int64_t end) { body(static_cast<size_t>(first), static_cast<size_t>(end)); });
}

/// Elements from `first` on.
template <class T>
void write_part(Executor& executor, TensorId id, int64_t first, std::span<const T> values) {
  const Tensor tensor = executor.tensor(id);
  const int64_t end = first + std::ssize(values);
  if (end > tensor.num_elements()) throw InternalError("weights", "write past the end", end, tensor.num_elements());
  executor.backend().copy_to_device(static_cast<T*>(tensor.data) + first, values.data(),
                                    static_cast<int64_t>(values.size_bytes()));
}

template <class T>
void read_into(const Executor& executor, TensorId id, std::span<T> values, SideReader* side) {
  const auto bytes = static_cast<int64_t>(values.size_bytes());
  if (side == nullptr) {
    executor.read(id, values.data(), bytes);
  } else {
    side->read(values.data(), executor.tensor(id).data, bytes);
  }
}

template <class T>
std::vector<T> read_all(const Executor& executor, TensorId id, SideReader* side) {
  std::vector<T> values(static_cast<size_t>(executor.program().tensors[id].shape.num_elements()));
  read_into(executor, id, std::span(values), side);
  return values;
}

const ParamTensors& tensors_of(const Executor& executor, int64_t param) {
  return executor.program().param_tensors.at(static_cast<size_t>(param));
}

void write_floats_part(Executor& executor, TensorId id, int64_t first, std::span<const float> values) {
  if (executor.program().tensors[id].dtype == DType::kF32) {
    write_part(executor, id, first, values);
    return;
  }
  std::vector<bf16> rounded(values.size());
  for_stretches(values.size(), [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) rounded[i] = to_bf16(values[i]);
  });
  write_part(executor, id, first, std::span<const bf16>(rounded));
}

/// Whichever of master, weight and remainder are there, from element `first` on.
void write_values(Executor& executor, const ParamTensors& tensors, int64_t first, std::span<const float> values) {
  if (tensors.master.has_value()) write_floats_part(executor, tensors.master, first, values);
  const bool has_copy = tensors.weight.has_value() && tensors.weight != tensors.master;
  if (has_copy && !tensors.master.has_value() && executor.program().options.master == MasterWeights::kBF16) {
    write_floats_part(executor, tensors.weight, first, values);  // nothing stands beside it
    return;
  }
  if (!has_copy && !tensors.remainder.has_value()) return;
  std::vector<bf16> weight(has_copy ? values.size() : 0);
  std::vector<uint16_t> remainder(tensors.remainder.has_value() ? values.size() : 0);
  for_stretches(values.size(), [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      const SplitFloat split = split_float(values[i]);
      if (!weight.empty()) weight[i] = split.weight;
      if (!remainder.empty()) remainder[i] = split.remainder;
    }
  });
  if (!weight.empty()) write_part(executor, tensors.weight, first, std::span<const bf16>(weight));
  if (!remainder.empty()) write_part(executor, tensors.remainder, first, std::span<const uint16_t>(remainder));
}

/// Elements of a parameter from `first` on, and what this rank's own piece has of them.
void set_part(Executor& executor, int64_t param, int64_t first, std::span<const float> values) {
  const ParamTensors& whole = tensors_of(executor, param);
  write_values(executor, whole, first, values);
  const ParamShard& shard = executor.program().shards.at(static_cast<size_t>(param));
  const int64_t begin = std::max(first, shard.first);
  const int64_t end = std::min(first + std::ssize(values), shard.first + shard.count);
  if (begin >= end) return;
  const ParamTensors piece{.master = whole.master.has_value() ? TensorId{} : shard.tensors.master,
                           .remainder = whole.remainder.has_value() ? TensorId{} : shard.tensors.remainder};
  write_values(executor, piece, begin - shard.first,
               values.subspan(static_cast<size_t>(begin - first), static_cast<size_t>(end - begin)));
}

std::vector<float> get_floats(const Executor& executor, TensorId id) {
  std::vector<float> values(static_cast<size_t>(executor.program().tensors[id].shape.num_elements()));
  read_floats(executor, id, values);
  return values;
}

}  // namespace

void write_floats(Executor& executor, TensorId id, std::span<const float> values) {
  const TensorInfo& info = executor.program().tensors[id];
  if (std::ssize(values) != info.shape.num_elements()) {
    throw InternalError(info.name, "copy of the wrong size", values.size(), info.shape.num_elements());
  }
  write_floats_part(executor, id, 0, values);
}

void read_floats(const Executor& executor, TensorId id, std::span<float> values, SideReader* side) {
  if (executor.program().tensors[id].dtype == DType::kF32) {
    read_into(executor, id, values, side);
    return;
  }
  const auto stored = read_all<bf16>(executor, id, side);
  for_stretches(values.size(), [&](size_t first, size_t end) {
    for (size_t i = first; i < end; ++i) values[i] = to_float(stored[i]);
  });
}

void set_parameter(Executor& executor, int64_t param, std::span<const float> values) {
  const auto index = static_cast<size_t>(param);
  const ParamSpec& whole = executor.program().whole_params.params.at(index);
  if (std::ssize(values) != whole.shape.num_elements()) {
    throw InternalError("weights", "values of a parameter", values.size(), whole.shape.num_elements());
  }
  const std::optional<int64_t> held = executor.program().held_param(param);
  if (!held) return;
  const ParamSpec& spec = executor.program().params.params[static_cast<size_t>(*held)];
  if (!spec.cut) return set_part(executor, *held, 0, values);
  std::vector<float> stored(static_cast<size_t>(spec.shape.num_elements()));
  cut_values(spec, values, stored);
  set_part(executor, *held, 0, stored);
}

void read_parameter(const Executor& executor, int64_t param, std::span<float> values, SideReader* side) {
  const ParamTensors& tensors = tensors_of(executor, param);
  const ParamTensors& shard = executor.program().shards.at(static_cast<size_t>(param)).tensors;
  const bool is_whole = tensors.master.has_value() || tensors.remainder.has_value() ||
                        executor.program().options.master == MasterWeights::kBF16;
  if (!is_whole) {
    throw InternalError(executor.program().params.params[static_cast<size_t>(param)].name, "is held in pieces",
                        shard.master.has_value() ? "a piece of the master" : "a piece of the remainder",
                        "gather_masters");
  }
  if (!tensors.remainder.has_value()) {
    read_floats(executor, tensors.master.has_value() ? tensors.master : tensors.weight, values, side);
    return;
  }
  const auto weight = read_all<bf16>(executor, tensors.weight, side);
  const auto remainder = read_all<uint16_t>(executor, tensors.remainder, side);
  for_stretches(values.size(), [&](size_t first, size_t end) {
    for (size_t i = first; i < end; ++i) values[i] = join_float(weight[i], remainder[i]);
  });
}

std::vector<float> get_parameter(const Executor& executor, int64_t param) {
  const ParamSpec& spec = executor.program().params.params.at(static_cast<size_t>(param));
  std::vector<float> values(static_cast<size_t>(spec.shape.num_elements()));
  read_parameter(executor, param, values);
  return values;
}

std::vector<float> get_gradient(const Executor& executor, int64_t param) {
  return get_floats(executor, tensors_of(executor, param).gradient);
}

void make_weights_whole(Executor& executor) {
  if (executor.program().tape(Phase::kGather) != nullptr) executor.run(Phase::kGather);
}

void pack_weights(Executor& executor) {
  if (executor.program().tape(Phase::kMeasure) != nullptr) executor.run(Phase::kMeasure);
  executor.run(Phase::kPack);
}

void load_weights(Executor& executor, const std::filesystem::path& folder) {
  HfFolder weights = HfFolder::open(folder);
  weights.check(executor.program().config, executor.program().whole_params);
  const std::vector<ParamSpec>& params = executor.program().whole_params.params;
  for (size_t index = 0; index < params.size(); ++index) {
    if (!executor.program().held_param(static_cast<int64_t>(index))) continue;
    std::vector<float> values(static_cast<size_t>(params[index].shape.num_elements()));
    weights.read_parameter(params[index], values);
    set_parameter(executor, static_cast<int64_t>(index), values);
  }
  pack_weights(executor);
}

void initialise_weights(Executor& executor, uint64_t seed) {
  const Program& program = executor.program();
  std::vector<float> piece;
  for (int64_t whole = 0; whole < std::ssize(program.whole_params.params); ++whole) {
    const std::optional<int64_t> held = program.held_param(whole);
    if (!held) continue;
    const ParamSpec& spec = program.params.params[static_cast<size_t>(*held)];
    const RandomStream random(seed, kFirstWeightStream + static_cast<uint64_t>(whole));
    const int64_t count = spec.shape.num_elements();
    for (int64_t first = 0; first < count; first += kInitPiece) {
      piece.resize(static_cast<size_t>(std::min(kInitPiece, count - first)));
      draw_initial_values(spec, random, first, piece);
      set_part(executor, *held, first, piece);
    }
  }
  pack_weights(executor);
}

}  // namespace litespark
