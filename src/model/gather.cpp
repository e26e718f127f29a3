// SPDX-License-Identifier: Apache-2.0
#include "model/gather.h"

#include <algorithm>
#include <vector>

#include "core/bf16_rounding.h"
#include "model/weights.h"

namespace litespark {
namespace {

std::span<float> values_in(std::span<float> flat, const ParamSpec& param) {
  return flat.subspan(static_cast<size_t>(param.flat_offset), static_cast<size_t>(param.shape.num_elements()));
}

/// Every rank's `piece` behind one another: [bucket.size] elements, or nothing where `keeps` is false. They travel
/// through the bucket's gradients, in as many parts as their room asks for.
template <class T>
std::vector<T> join_pieces(Executor& executor, const Bucket& bucket, TensorId piece, bool keeps) {
  Communicator& ranks = *executor.communicator();
  const Tensor mine = executor.tensor(piece);
  const Tensor room = executor.tensor(bucket.gradient);
  const int64_t size = mine.num_elements();
  const auto element_bytes = static_cast<int64_t>(sizeof(T));
  const int64_t step = std::min(size, room.bytes() / (ranks.size() * element_bytes));
  std::vector<T> joined(keeps ? static_cast<size_t>(bucket.size) : 0);
  for (int64_t first = 0; first < size; first += step) {
    const int64_t count = std::min(step, size - first);
    const Tensor part{.data = mine.as<T>() + first, .dtype = mine.dtype, .shape = {count}, .device = mine.device};
    const Tensor all{.data = room.data, .dtype = mine.dtype, .shape = {count * ranks.size()}, .device = room.device};
    ranks.wait(ranks.all_gather(all, part));
    for (int rank = 0; keeps && rank < ranks.size(); ++rank) {
      executor.waiting([&] {
        executor.backend().copy_to_host(joined.data() + rank * size + first,
                                        static_cast<const T*>(all.data) + rank * count, count * element_bytes);
      });
    }
  }
  return joined;
}

std::vector<float> join_floats(Executor& executor, const Bucket& bucket, TensorId piece, bool keeps) {
  if (executor.program().tensors[piece].dtype == DType::kF32) {
    return join_pieces<float>(executor, bucket, piece, keeps);
  }
  const auto stored = join_pieces<bf16>(executor, bucket, piece, keeps);
  std::vector<float> values(stored.size());
  std::transform(stored.begin(), stored.end(), values.begin(), [](bf16 value) { return to_float(value); });
  return values;
}

/// Calls body(table index, where it begins in the bucket) for each parameter.
template <class Body>
void for_params(const Bucket& bucket, const Body& body) {
  for (size_t i = 0; i < bucket.params.size(); ++i) body(bucket.params[i], static_cast<size_t>(bucket.offsets[i]));
}

void gather_master(Executor& executor, const Bucket& bucket, std::span<float> flat) {
  const Program& program = executor.program();
  const bool keeps = !flat.empty();
  const ParamTensors& whole = program.param_tensors[static_cast<size_t>(bucket.params.front())];
  const auto spec_of = [&](int64_t param) -> const ParamSpec& {
    return program.params.params[static_cast<size_t>(param)];
  };
  if (!whole.master.has_value() && bucket.shard.master.has_value()) {
    const std::vector<float> joined = join_floats(executor, bucket, bucket.shard.master, keeps);
    for_params(bucket, [&](int64_t param, size_t begin) {
      if (!keeps) return;
      const std::span<float> values = values_in(flat, spec_of(param));
      std::copy_n(joined.begin() + static_cast<std::ptrdiff_t>(begin), values.size(), values.begin());
    });
    return;
  }
  if (!whole.remainder.has_value() && bucket.shard.remainder.has_value()) {
    const auto remainder = join_pieces<uint16_t>(executor, bucket, bucket.shard.remainder, keeps);
    for_params(bucket, [&](int64_t param, size_t begin) {
      if (!keeps) return;
      const std::span<float> values = values_in(flat, spec_of(param));
      const TensorId weight = program.param_tensors[static_cast<size_t>(param)].weight;
      read_floats(executor, weight, values);
      for (size_t i = 0; i < values.size(); ++i) values[i] = join_float(to_bf16(values[i]), remainder[begin + i]);
    });
    return;
  }
  for_params(bucket, [&](int64_t param, size_t) {
    if (keeps) read_parameter(executor, param, values_in(flat, spec_of(param)));
  });
}

}  // namespace

void gather_moment(Executor& executor, TensorId ParamTensors::*moment, std::span<float> flat) {
  for (const Bucket& bucket : executor.program().buckets) {
    const std::vector<float> joined = join_floats(executor, bucket, bucket.shard.*moment, !flat.empty());
    for_params(bucket, [&](int64_t param, size_t begin) {
      if (flat.empty()) return;
      const std::span<float> values = values_in(flat, executor.program().params.params[static_cast<size_t>(param)]);
      std::copy_n(joined.begin() + static_cast<std::ptrdiff_t>(begin), values.size(), values.begin());
    });
  }
}

void gather_masters(Executor& executor, std::span<float> flat) {
  make_weights_whole(executor);
  for (const Bucket& bucket : executor.program().buckets) gather_master(executor, bucket, flat);
}

}  // namespace litespark
