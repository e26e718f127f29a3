// SPDX-License-Identifier: Apache-2.0
#include "attention_ops.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <string>

#include "block.h"
#include "core/checked.h"
#include "core/error.h"
#include "ops/cuda/attention_fp8.h"
#include "ops/cuda/heuristics/attention_gradient.h"

namespace litespark::cuda {
namespace {

/// Memory of an op's tensors; what is only written is NaN at first.
class HostMemory {
 public:
  explicit HostMemory(const test::Values& inputs) : inputs_(inputs) {}

  Tensor in(std::string_view name, const Tensor& tensor) {
    if (!tensor.has_value()) return tensor;
    read_.emplace(name, tensor.dtype);
    return place(name, tensor, test::encode(tensor.dtype, inputs_.at(name)));
  }
  Tensor inout(std::string_view name, const Tensor& tensor) {
    if (!tensor.has_value()) return tensor;
    written_.emplace(name, tensor.dtype);
    return place(name, tensor, test::encode(tensor.dtype, inputs_.at(name)));
  }
  Tensor out(std::string_view name, const Tensor& tensor) {
    if (!tensor.has_value()) return tensor;
    written_.emplace(name, tensor.dtype);
    return place(name, tensor, std::vector<std::byte>(static_cast<size_t>(tensor.bytes()), std::byte{0xff}));
  }

  /// Throws where an input has changed.
  test::Values outputs() const {
    for (const auto& [name, dtype] : read_) {
      if (bytes_.at(name) != test::encode(dtype, inputs_.at(name))) {
        throw InternalError("attention", "an input was written to", name, "outputs alone");
      }
    }
    test::Values result;
    for (const auto& [name, dtype] : written_) result.tensors[name] = test::decode(dtype, bytes_.at(name));
    return result;
  }

 private:
  Tensor place(std::string_view name, Tensor tensor, std::vector<std::byte> bytes) {
    std::vector<std::byte>& kept = bytes_[std::string(name)] = std::move(bytes);
    tensor.data = kept.data();
    return tensor;
  }

  const test::Values& inputs_;
  std::map<std::string, std::vector<std::byte>> bytes_;
  std::map<std::string, DType> read_, written_;
};

/// What all of whole attention has.
template <class Op>
AttentionArguments shape_arguments(const Op& op) {
  return {.out = op.out.data,
          .log_sum_exp = op.log_sum_exp.template as<float>(),
          .offsets = op.offsets.template as<int32_t>(),
          .num_documents = op.num_documents.template as<int32_t>(),
          .stats = {.head_stride = op.out.rows()},
          .num_tokens = static_cast<int>(op.out.rows()),
          .num_heads = op.shape.num_heads,
          .num_kv_heads = op.shape.num_kv_heads,
          .head_dim = op.shape.head_dim,
          .window = op.shape.window,
          .scale = op.shape.scale,
          .max_documents = op.shape.max_documents,
          .uniform_length = op.shape.uniform ? op.shape.max_length : 0,
          .has_alibi = op.shape.has_alibi,
          .gates = op.shape.gates};
}

/// As AttentionLibrary has it where cuDNN runs one direction of a shape.
StatsLayout stats_by_document(const op::AttentionShape& shape) {
  return {.head_stride = shape.max_length,
          .document_stride = int64_t{shape.num_heads} * shape.max_length,
          .by_document = true};
}

/// What both directions of whole attention read.
template <class Op>
AttentionArguments whole_arguments(const Op& op) {
  AttentionArguments arguments = shape_arguments(op);
  arguments.qkv = op.qkv.data;
  return arguments;
}

/// Whole attention or a part, by `launch(arguments, dtype)`.
template <class Op, class Launch>
test::Values run_forward(const test::OpCase<Op>& test, const Launch& launch) {
  HostMemory memory(test.inputs);
  const auto op = test.op.map(memory);
  AttentionArguments arguments;
  if constexpr (requires { op.part; }) {
    arguments = part_arguments(op);
    arguments.merged = op.out.template as<float>();
  } else {
    arguments = whole_arguments(op);
    arguments.abs_max = op.abs_max.has_value() ? op.abs_max.template as<float>() : nullptr;
    arguments.angles = RotaryAngles::of(op.table, op.positions);
  }
  launch(arguments, op.qkv.dtype);
  return memory.outputs();
}

/// Whole attention or a part, by `launch(arguments, dtype)`.
template <class Op, class Launch>
test::Values run_backward(const test::OpCase<Op>& test, const Launch& launch) {
  HostMemory memory(test.inputs);
  const auto op = test.op.map(memory);
  AttentionArguments arguments;
  if constexpr (requires { op.part; }) {
    arguments = part_arguments(op);
    arguments.out = op.out.data;
    arguments.dqueries = op.dqueries.template as<float>();
    arguments.dkeys_values = op.dkeys_values.template as<float>();
  } else {
    arguments = whole_arguments(op);
    arguments.dqkv = op.dqkv.data;
    arguments.abs_max = op.abs_max.has_value() ? op.abs_max.template as<float>() : nullptr;
    arguments.angles = RotaryAngles::of(op.table, op.positions);
  }
  arguments.dout = op.dout.data;
  launch(arguments, op.qkv.dtype);
  return memory.outputs();
}

/// By two blocks, which run one after another: the first takes all slots, the second finds none. `launch(arguments,
/// context)` starts them.
template <class Launch>
void launch_with_tickets(AttentionArguments arguments, const Launch& launch) {
  std::array<int32_t, 2> tickets = {};
  arguments.tickets = tickets.data();
  launch(arguments, DeviceContext{.num_multiprocessors = 2});
  if (tickets != std::array<int32_t, 2>{}) throw InternalError("attention", "tickets are left", tickets[0], 0);
}

void run_hopper_forward(const AttentionArguments& arguments, DType /*dtype*/) {
  launch_with_tickets(arguments, launch_attention_forward_hopper);
}

void run_portable_backward(AttentionArguments arguments, DType dtype) {
  std::vector<float> delta(static_cast<size_t>(arguments.num_heads * arguments.num_tokens));
  arguments.delta = delta.data();
  launch_attention_backward(arguments, dtype, {});
}

test::Values run_hopper_fp8(const test::OpCase<op::AttentionForwardFp8<Tensor>>& test, const StatsLayout& stats) {
  HostMemory memory(test.inputs);
  const auto op = test.op.map(memory);
  AttentionArguments arguments = shape_arguments(op);
  arguments.stats = stats;
  arguments.abs_max = op.abs_max.has_value() ? op.abs_max.as<float>() : nullptr;
  const Fp8Operands operands{
      .queries_keys = op.queries_keys.data, .values = op.values.data, .scale = op.scale.as<float>()};
  launch_with_tickets(arguments, [&](const AttentionArguments& given, const DeviceContext& context) {
    launch_attention_forward_fp8(given, operands, context);
  });
  return memory.outputs();
}

/// Over scratch that is NaN at first.
template <class Op>
test::Values run_hopper_backward(const test::OpCase<Op>& test, bool ordered,
                                 const std::optional<StatsLayout>& stats = std::nullopt) {
  return run_backward(test, [&](AttentionArguments arguments, DType /*dtype*/) {
    if (stats) arguments.stats = *stats;
    const int64_t bytes = gradient_scratch(arguments.num_tokens, arguments.num_heads, arguments.head_dim).bytes;
    std::vector<uint4> scratch(static_cast<size_t>(bytes / 16), {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff});
    launch_attention_backward_hopper(arguments, scratch.data(), {.deterministic = ordered});
  });
}

}  // namespace

test::Values run_portable(const test::OpCase<op::AttentionForward<Tensor>>& test) {
  return run_forward(test, [](const auto& arguments, DType dtype) { launch_attention_forward(arguments, dtype, {}); });
}
test::Values run_portable(const test::OpCase<op::AttentionPartForward<Tensor>>& test) {
  return run_forward(test, [](const auto& arguments, DType dtype) { launch_attention_forward(arguments, dtype, {}); });
}
test::Values run_hopper(const test::OpCase<op::AttentionForward<Tensor>>& test) {
  return run_forward(test, run_hopper_forward);
}
test::Values run_hopper(const test::OpCase<op::AttentionPartForward<Tensor>>& test) {
  return run_forward(test, run_hopper_forward);
}

test::Values run_hopper(const test::OpCase<op::AttentionForwardFp8<Tensor>>& test) {
  return run_hopper_fp8(test, {.head_stride = test.op.out.rows()});
}
test::Values run_hopper_by_document(const test::OpCase<op::AttentionForwardFp8<Tensor>>& test) {
  return run_hopper_fp8(test, stats_by_document(test.op.shape));
}

test::Values run_portable(const test::OpCase<op::AttentionBackward<Tensor>>& test) {
  return run_backward(test, run_portable_backward);
}
test::Values run_portable(const test::OpCase<op::AttentionPartBackward<Tensor>>& test) {
  return run_backward(test, run_portable_backward);
}

test::Values run_hopper(const test::OpCase<op::AttentionBackward<Tensor>>& test, bool ordered) {
  return run_hopper_backward(test, ordered);
}
test::Values run_hopper(const test::OpCase<op::AttentionPartBackward<Tensor>>& test, bool ordered) {
  return run_hopper_backward(test, ordered);
}

test::Values run_hopper_by_document(const test::OpCase<op::AttentionBackward<Tensor>>& test) {
  return run_hopper_backward(test, true, stats_by_document(test.op.shape));
}

void clear_off_heads(const test::AttentionCase& c, int64_t columns, std::vector<double>& matrix) {
  const auto clear = [&](int64_t head) {
    for (int64_t row = 0; row < c.rows(); ++row) {
      for (int d = 0; d < c.dim; ++d) {
        double& value = matrix[static_cast<size_t>(row * columns + head * c.dim + d)];
        ASSERT_TRUE(std::isnan(value)) << "head " << head;
        value = 0;
      }
    }
  };
  for (const int head : c.off_heads) clear(head);
  const int group = c.heads / c.kv_heads;
  for (int kv_head = 0; kv_head < c.kv_heads && columns > c.out_columns(); ++kv_head) {
    if (c.gates().num_on(kv_head * group, group) > 0) continue;
    clear(c.heads + kv_head);
    clear(c.heads + c.kv_heads + kv_head);
  }
}

}  // namespace litespark::cuda
