// SPDX-License-Identifier: Apache-2.0
#include "plan/tape_cost.h"

#include <algorithm>
#include <variant>

namespace litespark {
namespace {

/// Bytes that an op moves, through its map.
struct TrafficCounter {
  const TensorTable& tensors;
  double& bytes;

  TensorId add(TensorId id, double times) const {
    if (id.has_value() && tensors[id].owner != Owner::kScratch)
      bytes += times * static_cast<double>(tensors[id].bytes());
    return id;
  }
  TensorId in(std::string_view, TensorId id) const { return add(id, 1); }
  TensorId out(std::string_view, TensorId id) const { return add(id, 1); }
  TensorId inout(std::string_view, TensorId id) const { return add(id, 2); }
};

struct Arithmetic {
  double matmul_flops = 0;
  double attention_flops = 0;
};

/// Scores and values of the causal half; backward has five such products beside forward's two.
double attention_flops(const op::AttentionShape& shape, int64_t num_tokens, int products) {
  const double length = shape.window > 0 ? std::min(shape.window, shape.max_length) : shape.max_length;
  return products * static_cast<double>(num_tokens) * length * shape.num_heads * shape.head_dim;
}

Arithmetic arithmetic_of(const op::AnyOp<TensorId>& any, const TensorTable& tensors) {
  const auto product = [&](TensorId tall, TensorId wide) {
    return 2.0 * static_cast<double>(tensors[tall].shape.num_elements()) *
           static_cast<double>(tensors[wide].shape.last());
  };
  if (const auto* op = std::get_if<op::MatmulForward<TensorId>>(&any)) return {.matmul_flops = product(op->x, op->y)};
  if (const auto* op = std::get_if<op::MatmulBackwardInput<TensorId>>(&any)) {
    return {.matmul_flops = product(op->dy, op->dx)};
  }
  if (const auto* op = std::get_if<op::MatmulBackwardWeight<TensorId>>(&any)) {
    return {.matmul_flops = product(op->dy, op->x)};
  }
  if (const auto* op = std::get_if<op::ScaledMatmul<TensorId>>(&any)) {
    // Twice the rate: a prediction compares programs, and 8-bit products sustain 1.7 to 1.9 times bf16's.
    return {.matmul_flops = static_cast<double>(tensors[op->a].shape.num_elements()) *
                            static_cast<double>(tensors[op->b].shape[0])};
  }
  if (const auto* op = std::get_if<op::AttentionForward<TensorId>>(&any)) {
    return {.attention_flops = attention_flops(op->shape, tensors[op->qkv].shape[0], 2)};
  }
  if (const auto* op = std::get_if<op::AttentionBackward<TensorId>>(&any)) {
    return {.attention_flops = attention_flops(op->shape, tensors[op->qkv].shape[0], 5)};
  }
  return {};
}

}  // namespace

double predicted_seconds(const Tape& tape, const TensorTable& tensors, const DeviceRates& rates) {
  double seconds = 0;
  for (const TapeEntry& entry : tape.entries()) {
    double bytes = 0;
    const TrafficCounter counter{.tensors = tensors, .bytes = bytes};
    std::visit([&](const auto& op) { static_cast<void>(op.map(counter)); }, entry.op);
    const Arithmetic arithmetic = arithmetic_of(entry.op, tensors);
    seconds += std::max({bytes / rates.bytes_per_second, arithmetic.matmul_flops / rates.matmul_flops_per_second,
                         arithmetic.attention_flops / rates.attention_flops_per_second});
  }
  return seconds;
}

double predicted_step_seconds(const Program& program, int64_t accumulation, const DeviceRates& rates) {
  const auto phase = [&](Phase name) {
    const Tape* const tape = program.tape(name);
    return tape == nullptr ? 0.0 : predicted_seconds(*tape, program.tensors, rates);
  };
  return phase(Phase::kTrainFirst) + static_cast<double>(accumulation - 1) * phase(Phase::kTrainNext) +
         phase(Phase::kOptimizer) + phase(Phase::kPack);
}

}  // namespace litespark
