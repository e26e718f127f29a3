// SPDX-License-Identifier: Apache-2.0
#include "plan/tape_cost.h"

#include <algorithm>
#include <variant>

#include "core/checked.h"

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

/// Scores and values of the causal half; backward has five such products beside forward's two.
double attention_flops(const op::AttentionShape& shape, int64_t num_tokens, int products) {
  const double length = shape.window > 0 ? std::min(shape.window, shape.max_length) : shape.max_length;
  return products * static_cast<double>(num_tokens) * length * shape.gates.num_on(0, shape.num_heads) * shape.head_dim;
}

void add_attention(OpWork& work, const op::AttentionShape& shape, int64_t num_tokens, int products) {
  work.attention_flops = attention_flops(shape, num_tokens, products);
  work.attention_length = static_cast<double>(shape.max_length);
  work.attention_width = static_cast<double>(shape.head_dim);
  work.attention_group = static_cast<double>(shape.num_heads) / static_cast<double>(shape.num_kv_heads);
  work.is_attention_backward = products > 2;
}

/// Beside a scale a tensor, on an H200: copies by row move 0.72 as many bytes a second, promoted products reach 0.92
/// (bench/results/2026-11-30-h200-fp8-ops.txt and -fp8-matmul.json).
constexpr double kCopiesByRow = 0.72;
constexpr double kPromotedByRow = 0.92;

}  // namespace

OpWork op_work(const op::AnyOp<TensorId>& any, const TensorTable& tensors) {
  OpWork work;
  const TrafficCounter counter{.tensors = tensors, .bytes = work.bytes};
  std::visit([&](const auto& op) { static_cast<void>(op.map(counter)); }, any);
  // [rows, inner] x [inner, columns]
  const auto product = [&](int64_t rows, int64_t columns, int64_t inner) {
    work.rows = static_cast<double>(rows);
    work.columns = static_cast<double>(columns);
    work.inner = static_cast<double>(inner);
  };
  const auto rows_of = [&](TensorId id) { return tensors[id].shape.num_elements() / tensors[id].shape.last(); };
  const auto last_of = [&](TensorId id) { return tensors[id].shape.last(); };
  if (const auto* forward = std::get_if<op::MatmulForward<TensorId>>(&any)) {
    product(rows_of(forward->x), last_of(forward->y), last_of(forward->x));
  } else if (const auto* input = std::get_if<op::MatmulBackwardInput<TensorId>>(&any)) {
    product(rows_of(input->dy), last_of(input->dx), last_of(input->dy));
  } else if (const auto* weight = std::get_if<op::MatmulBackwardWeight<TensorId>>(&any)) {
    product(last_of(weight->dy), last_of(weight->x), rows_of(weight->dy));
  } else if (const auto* gated = std::get_if<op::GatedForward<TensorId>>(&any)) {
    product(rows_of(gated->x), last_of(gated->gate_up), last_of(gated->x));
  } else if (const auto* gated_back = std::get_if<op::GatedBackward<TensorId>>(&any)) {
    product(rows_of(gated_back->dout), last_of(gated_back->weight), last_of(gated_back->dout));
  } else if (const auto* scaled = std::get_if<op::ScaledMatmul<TensorId>>(&any)) {
    product(rows_of(scaled->a), tensors[scaled->b].shape[0], last_of(scaled->a));
    work.is_fp8 = true;
    if (!scaled->is_fast && tensors[scaled->a_scale].shape.num_elements() > 1) work.rate_share = kPromotedByRow;
  } else if (const auto* copies = std::get_if<op::QuantizeFp8<TensorId>>(&any)) {
    if (copies->column_scale.has_value()) work.rate_share = kCopiesByRow;
  } else if (const auto* attention = std::get_if<op::AttentionForward<TensorId>>(&any)) {
    add_attention(work, attention->shape, tensors[attention->qkv].shape[0], 2);
  } else if (const auto* on_fp8 = std::get_if<op::AttentionForwardFp8<TensorId>>(&any)) {
    add_attention(work, on_fp8->shape, tensors[on_fp8->out].shape[0],
                  2);  // at bf16's rate: there is no curve of its own
  } else if (const auto* gradient = std::get_if<op::AttentionBackward<TensorId>>(&any)) {
    add_attention(work, gradient->shape, tensors[gradient->qkv].shape[0], 5);
  } else if (const auto* part = std::get_if<op::AttentionPartForward<TensorId>>(&any)) {
    add_attention(work, part->shape, tensors[part->qkv].shape[0], 2);
    work.attention_flops /= part->part.ranks;
  } else if (const auto* share = std::get_if<op::AttentionPartBackward<TensorId>>(&any)) {
    add_attention(work, share->shape, tensors[share->qkv].shape[0], 5);
    work.attention_flops /= share->part.ranks;
  } else if (std::holds_alternative<op::DropResidual<TensorId>>(any)) {
    work.bytes = 0;  // a look at a flag, but in skipped steps
  }
  return work;
}

double predicted_seconds(const Tape& tape, const TensorTable& tensors, const DeviceRates& rates) {
  double seconds = 0;
  for (const TapeEntry& entry : tape.entries()) {
    const OpWork work = op_work(entry.op, tensors);
    // 8-bit products sustain 1.7 to 1.9 times the rate of bf16's.
    const double matmul_rate = rates.matmul_flops_per_second * (work.is_fp8 ? 1.8 : 1.0);
    seconds += std::max({work.bytes / rates.bytes_per_second, work.matmul_flops() / matmul_rate,
                         work.attention_flops / rates.attention_flops_per_second}) /
               work.rate_share;
  }
  return seconds;
}

double predicted_step_seconds(const Program& program, int64_t accumulation, const DeviceRates& rates) {
  const auto phase = [&](Phase name) {
    const Tape* const tape = program.tape(name);
    return tape == nullptr ? 0.0 : predicted_seconds(*tape, program.tensors, rates);
  };
  if (program.options.stages > 1) {
    // All stages wait for each other: as long as one more micro-batch for each of the others.
    const double bubble = real(program.options.stages - 1) / real(accumulation * program.options.chunks);
    return (1 + bubble) * phase(Phase::kTrainStep) + phase(Phase::kOptimizer) + phase(Phase::kPack);
  }
  return phase(Phase::kTrainFirst) + static_cast<double>(accumulation - 1) * phase(Phase::kTrainNext) +
         phase(Phase::kOptimizer) + phase(Phase::kPack);
}

}  // namespace litespark
