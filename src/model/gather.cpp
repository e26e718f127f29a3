// SPDX-License-Identifier: Apache-2.0
#include "model/gather.h"

#include <algorithm>
#include <vector>

#include "core/bf16_rounding.h"
#include "model/weights.h"
#include "spec/param_cut.h"

namespace litespark {
namespace {

std::span<float> values_in(std::span<float> flat, const ParamSpec& param) {
  return flat.subspan(static_cast<size_t>(param.flat_offset), static_cast<size_t>(param.shape.num_elements()));
}

/// Copies between a tensor's memory and the host's.
void copy_out(const Executor& executor, void* destination, const void* source, int64_t bytes) {
  executor.waiting([&] { executor.backend().copy_to_host(destination, source, bytes); });
}

/// Memory that is free between two steps: what this rank has of the bucket's gradients.
Tensor room_of(const Executor& executor, const Bucket& bucket) {
  return executor.tensor(bucket.gradient.has_value() ? bucket.gradient : bucket.shard.gradient);
}

/// Every data rank's `piece` behind one another: [bucket.size] elements, or nothing where `keeps` is false. They travel
/// through the bucket's gradients, in as many parts as their room asks for.
template <class T>
std::vector<T> join_pieces(Executor& executor, const Bucket& bucket, TensorId piece, bool keeps) {
  const Tensor mine = executor.tensor(piece);
  const auto element_bytes = static_cast<int64_t>(sizeof(T));
  std::vector<T> joined(keeps ? static_cast<size_t>(bucket.size) : 0);
  Communicator* const ranks = executor.communicator(op::CommGroup::kData);
  if (ranks == nullptr) {
    if (keeps) copy_out(executor, joined.data(), mine.data, mine.bytes());
    return joined;
  }
  const Tensor room = room_of(executor, bucket);
  const int64_t size = mine.num_elements();
  const int64_t step = std::min(size, room.bytes() / (ranks->size() * element_bytes));
  for (int64_t first = 0; first < size; first += step) {
    const int64_t count = std::min(step, size - first);
    const Tensor part{.data = mine.as<T>() + first, .dtype = mine.dtype, .shape = {count}, .device = mine.device};
    const Tensor all{.data = room.data, .dtype = mine.dtype, .shape = {count * ranks->size()}, .device = room.device};
    ranks->wait(ranks->all_gather(all, part));
    for (int rank = 0; keeps && rank < ranks->size(); ++rank) {
      copy_out(executor, joined.data() + rank * size + first, static_cast<const T*>(all.data) + rank * count,
               count * element_bytes);
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

/// The masters of one bucket as this rank stores them, [bucket.size]; nothing where `keeps` is false.
std::vector<float> join_masters(Executor& executor, const Bucket& bucket, bool keeps) {
  const Program& program = executor.program();
  const ParamTensors& whole = program.param_tensors[static_cast<size_t>(bucket.params.front())];
  if (!whole.master.has_value() && bucket.shard.master.has_value()) {
    return join_floats(executor, bucket, bucket.shard.master, keeps);
  }
  std::vector<uint16_t> remainder;
  if (!whole.remainder.has_value() && bucket.shard.remainder.has_value()) {
    remainder = join_pieces<uint16_t>(executor, bucket, bucket.shard.remainder, keeps);
  }
  if (!keeps) return {};
  std::vector<float> joined(static_cast<size_t>(bucket.size));
  for_params(bucket, [&](int64_t param, size_t begin) {
    const auto index = static_cast<size_t>(param);
    const auto count = static_cast<size_t>(program.params.params[index].shape.num_elements());
    const std::span<float> values = std::span(joined).subspan(begin, count);
    if (remainder.empty()) return read_parameter(executor, param, values);
    read_floats(executor, program.param_tensors[index].weight, values);
    for (size_t i = 0; i < count; ++i) values[i] = join_float(to_bf16(values[i]), remainder[begin + i]);
  });
  return joined;
}

/// What each tensor-parallel rank stores of a bucket, in their order; nothing where `keeps` is false.
std::vector<std::vector<float>> tell_tensor_ranks(Executor& executor, const Bucket& bucket,
                                                  const std::vector<float>& own, bool keeps) {
  Communicator& ranks = *executor.communicator(op::CommGroup::kTensor);
  const Tensor room = room_of(executor, bucket);
  float* const all = static_cast<float*>(room.data);
  const auto element_bytes = static_cast<int64_t>(sizeof(float));
  const int64_t size = std::ssize(own);
  const int64_t step = std::min(size, room.bytes() / ((ranks.size() + 1) * element_bytes));
  std::vector<std::vector<float>> told(keeps ? static_cast<size_t>(ranks.size()) : 0, std::vector<float>(own.size()));
  for (int64_t first = 0; first < size; first += step) {
    const int64_t count = std::min(step, size - first);
    const Tensor gathered{.data = all, .dtype = DType::kF32, .shape = {count * ranks.size()}, .device = room.device};
    const Tensor part{
        .data = all + count * ranks.size(), .dtype = DType::kF32, .shape = {count}, .device = room.device};
    executor.backend().copy_to_device(part.data, own.data() + first, count * element_bytes);
    ranks.wait(ranks.all_gather(gathered, part));
    for (size_t rank = 0; rank < told.size(); ++rank) {
      copy_out(executor, told[rank].data() + first, all + static_cast<int64_t>(rank) * count, count * element_bytes);
    }
  }
  return told;
}

/// The table of every tensor-parallel rank.
std::vector<ParamTable> tables_of_ranks(const Program& program) {
  std::vector<ParamTable> tables;
  const int64_t ranks = program.options.tensor_ranks;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    tables.push_back(cut_param_table(program.whole_params, program.config, {.ranks = ranks, .rank = rank}));
  }
  return tables;
}

/// Brings `join`'s values of each bucket together from all ranks, into the whole model's order.
template <class Join>
void gather(Executor& executor, std::span<float> flat, const Join& join) {
  const Program& program = executor.program();
  const bool has_tensor_peers = program.options.tensor_ranks > 1;
  const bool keeps = !flat.empty();
  const std::vector<ParamTable> tables = tables_of_ranks(program);
  for (const Bucket& bucket : program.buckets) {
    std::vector<std::vector<float>> stored = {join(bucket, keeps || has_tensor_peers)};
    if (has_tensor_peers) stored = tell_tensor_ranks(executor, bucket, stored.front(), keeps);
    if (!keeps) continue;
    for_params(bucket, [&](int64_t param, size_t begin) {
      const auto index = static_cast<size_t>(param);
      const std::span<float> values = values_in(flat, program.whole_params.params[index]);
      for (size_t rank = 0; rank < stored.size(); ++rank) {
        const ParamSpec& spec = tables[rank].params[index];
        const auto count = static_cast<size_t>(spec.shape.num_elements());
        join_values(spec, std::span(stored[rank]).subspan(begin, count), values);
      }
    });
  }
}

}  // namespace

void gather_moment(Executor& executor, TensorId ParamTensors::*moment, std::span<float> flat) {
  gather(executor, flat,
         [&](const Bucket& bucket, bool keeps) { return join_floats(executor, bucket, bucket.shard.*moment, keeps); });
}

void gather_masters(Executor& executor, std::span<float> flat) {
  make_weights_whole(executor);
  gather(executor, flat, [&](const Bucket& bucket, bool keeps) { return join_masters(executor, bucket, keeps); });
}

}  // namespace litespark
