// SPDX-License-Identifier: Apache-2.0
#include "model/gather.h"

#include <algorithm>
#include <map>
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

/// What a data rank has of the bucket's residual, [bucket.size], or nothing where `keeps` is false: it is told to all
/// data ranks, through the gradients' room on the others.
std::vector<float> join_residual(Executor& executor, const Bucket& bucket, int64_t data_rank, bool keeps) {
  std::vector<float> joined(keeps ? static_cast<size_t>(bucket.size) : 0);
  if (!bucket.residual.has_value()) return joined;
  Communicator& ranks = *executor.communicator(op::CommGroup::kData);
  const bool is_own = ranks.rank() == data_rank;
  const Tensor room = is_own ? executor.tensor(bucket.residual) : room_of(executor, bucket);
  const int64_t step = std::min(bucket.size, room_of(executor, bucket).bytes() / dtype_bytes(DType::kF32));
  for (int64_t first = 0; first < bucket.size; first += step) {
    const Tensor part{.data = static_cast<float*>(room.data) + (is_own ? first : 0),
                      .dtype = DType::kF32,
                      .shape = {std::min(step, bucket.size - first)},
                      .device = room.device};
    ranks.wait(ranks.broadcast(part, static_cast<int>(data_rank)));
    if (keeps) copy_out(executor, joined.data() + first, part.data, part.bytes());
  }
  return joined;
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

/// The table of every tensor-parallel rank of this rank's stage.
std::vector<ParamTable> tables_of_ranks(const Program& program) {
  std::vector<ParamTable> tables;
  const ProgramOptions& options = program.options;
  for (int64_t rank = 0; rank < options.tensor_ranks; ++rank) {
    ParamTable cut =
        cut_param_table(program.whole_params, program.config, {.ranks = options.tensor_ranks, .rank = rank});
    tables.push_back(stage_params(std::move(cut), options.stage_place(), program.layers, program.config));
  }
  return tables;
}

/// Which of the stages sends a parameter to the first: of two that hold it the earlier one.
int64_t sending_stage(const Program& program, const ParamSpec& spec) {
  StagePlace place = program.options.stage_place();
  const ProgramOptions& options = program.options;
  const auto holds = [&] {
    const auto layers = layers_of_stage(program.config, place, options.batch.max_length, options.range_layers);
    return holds_param(place, layers, program.config, spec);
  };
  for (place.stage = 0; !holds();) ++place.stage;
  return place.stage;
}

/// What the first ranks of all stages tell that of the first stage, through memory that is free between two steps.
class StageMessages {
 public:
  explicit StageMessages(Executor& executor)
      : executor_(executor), stages_(*executor.communicator(op::CommGroup::kStages)) {
    for (const Bucket& bucket : executor.program().buckets) {
      const Tensor room = room_of(executor, bucket);
      if (!room_.has_value() || room.bytes() > room_.bytes()) room_ = room;
    }
    step_ = smallest_room() / static_cast<int64_t>(sizeof(float));
  }

  void send(std::span<const float> values) {
    for_parts(std::ssize(values), [&](int64_t first, const Tensor& part) {
      executor_.backend().copy_to_device(part.data, values.data() + first, part.bytes());
      stages_.wait(stages_.exchange({}, 0, part, 0));
    });
  }

  /// `count` values of a stage, into `values` where it has room for them.
  void receive(int64_t stage, int64_t count, std::span<float> values) {
    for_parts(count, [&](int64_t first, const Tensor& part) {
      stages_.wait(stages_.exchange(part, static_cast<int>(stage), {}, 0));
      if (!values.empty()) copy_out(executor_, values.data() + first, part.data, part.bytes());
    });
  }

 private:
  /// Of all stages, which need not have buckets of one size.
  int64_t smallest_room() {
    const int64_t own = room_.bytes();
    const auto bytes = static_cast<int64_t>(sizeof(own));
    std::vector<int64_t> all(static_cast<size_t>(stages_.size()));
    const Tensor gathered{.data = room_.data, .dtype = DType::kI64, .shape = {stages_.size()}, .device = room_.device};
    const Tensor part{.data = static_cast<std::byte*>(room_.data) + stages_.rank() * bytes,
                      .dtype = DType::kI64,
                      .shape = {1},
                      .device = room_.device};
    executor_.backend().copy_to_device(part.data, &own, bytes);
    stages_.wait(stages_.all_gather(gathered, part));
    copy_out(executor_, all.data(), gathered.data, gathered.bytes());
    return *std::min_element(all.begin(), all.end());
  }

  template <class Body>
  void for_parts(int64_t count, const Body& body) {
    for (int64_t first = 0; first < count; first += step_) {
      body(first, Tensor{.data = room_.data,
                         .dtype = DType::kF32,
                         .shape = {std::min(step_, count - first)},
                         .device = room_.device});
    }
  }

  Executor& executor_;
  Communicator& stages_;
  Tensor room_;
  int64_t step_ = 0;  ///< elements of a message
};

/// A stage's values by row of Program::whole_params.
using StageValues = std::map<size_t, std::vector<float>>;

/// Brings what the first rank of each stage has joined to that of the first.
void tell_first_stage(Executor& executor, const StageValues& own, std::span<float> flat) {
  const Program& program = executor.program();
  StageMessages messages(executor);
  for (size_t index = 0; index < program.whole_params.params.size(); ++index) {
    const ParamSpec& spec = program.whole_params.params[index];
    const int64_t stage = sending_stage(program, spec);
    if (stage == 0) continue;
    if (stage == program.options.stage) messages.send(own.at(index));
    if (program.options.stage > 0) continue;
    messages.receive(stage, spec.shape.num_elements(), flat.empty() ? flat : values_in(flat, spec));
  }
}

/// Brings `join`'s values of each bucket together from all ranks, into the whole model's order.
template <class Join>
void gather(Executor& executor, std::span<float> flat, const Join& join) {
  const Program& program = executor.program();
  const ProgramOptions& options = program.options;
  const bool has_tensor_peers = options.tensor_ranks > 1;
  const bool is_told_by_stages = options.stages > 1 && options.data_rank == 0 && options.tensor_rank == 0;
  const bool joins = !flat.empty() || (is_told_by_stages && options.stage > 0);
  const std::vector<ParamTable> tables = tables_of_ranks(program);
  StageValues own;
  for (const Bucket& bucket : program.buckets) {
    std::vector<std::vector<float>> stored = {join(bucket, joins || has_tensor_peers)};
    if (has_tensor_peers) stored = tell_tensor_ranks(executor, bucket, stored.front(), joins);
    if (!joins) continue;
    for_params(bucket, [&](int64_t param, size_t begin) {
      const auto index = static_cast<size_t>(param);
      const ParamSpec& held = program.params.params[index];
      const auto whole = static_cast<size_t>(*program.whole_params.find(held.role, held.layer));
      const ParamSpec& model = program.whole_params.params[whole];
      std::vector<float>& room = own[whole];
      if (flat.empty()) room.resize(static_cast<size_t>(model.shape.num_elements()));
      const std::span<float> values = flat.empty() ? std::span(room) : values_in(flat, model);
      for (size_t rank = 0; rank < stored.size(); ++rank) {
        const ParamSpec& spec = tables[rank].params[index];
        const auto count = static_cast<size_t>(spec.shape.num_elements());
        join_values(spec, std::span(stored[rank]).subspan(begin, count), values);
      }
    });
  }
  if (is_told_by_stages) tell_first_stage(executor, own, flat);
}

}  // namespace

void gather_moment(Executor& executor, TensorId ParamTensors::*moment, std::span<float> flat) {
  gather(executor, flat,
         [&](const Bucket& bucket, bool keeps) { return join_floats(executor, bucket, bucket.shard.*moment, keeps); });
}

void gather_residual(Executor& executor, int64_t data_rank, std::span<float> flat) {
  gather(executor, flat,
         [&](const Bucket& bucket, bool keeps) { return join_residual(executor, bucket, data_rank, keeps); });
}

void gather_masters(Executor& executor, std::span<float> flat) {
  make_weights_whole(executor);
  gather(executor, flat, [&](const Bucket& bucket, bool keeps) { return join_masters(executor, bucket, keeps); });
}

}  // namespace litespark
