// SPDX-License-Identifier: Apache-2.0
#include "attention_ops.h"

#include <array>
#include <map>
#include <string>

#include "block.h"
#include "core/checked.h"
#include "core/error.h"
#include "ops/cuda/attention_portable.h"

namespace litespark::cuda {
namespace {

/// Memory of an op's tensors; what is only written is NaN at first.
class HostMemory {
 public:
  explicit HostMemory(const test::Values& inputs) : inputs_(inputs) {}

  Tensor in(std::string_view name, const Tensor& tensor) {
    if (!tensor.has_value()) return tensor;
    return place(name, tensor, test::encode(tensor.dtype, inputs_.at(name)));
  }
  Tensor inout(std::string_view name, const Tensor& tensor) {
    if (!tensor.has_value()) return tensor;
    written_.emplace(name, tensor.dtype);
    return in(name, tensor);
  }
  Tensor out(std::string_view name, const Tensor& tensor) {
    if (!tensor.has_value()) return tensor;
    written_.emplace(name, tensor.dtype);
    return place(name, tensor, std::vector<std::byte>(static_cast<size_t>(tensor.bytes()), std::byte{0xff}));
  }

  test::Values outputs() const {
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
  std::map<std::string, DType> written_;
};

/// What both directions of whole attention read.
template <class Op>
AttentionArguments whole_arguments(const Op& op) {
  return {.qkv = op.qkv.data,
          .out = op.out.data,
          .log_sum_exp = op.log_sum_exp.template as<float>(),
          .offsets = op.offsets.template as<int32_t>(),
          .num_documents = op.num_documents.template as<int32_t>(),
          .stats = {.head_stride = op.qkv.rows()},
          .num_tokens = static_cast<int>(op.qkv.rows()),
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
  }
  launch(arguments, op.qkv.dtype);
  return memory.outputs();
}

void run_backward(AttentionArguments arguments, DType dtype) {
  std::vector<float> delta(static_cast<size_t>(arguments.num_heads * arguments.num_tokens));
  arguments.delta = delta.data();
  launch_attention_backward(arguments, dtype, {});
}

}  // namespace

test::Values run_portable(const test::OpCase<op::AttentionForward<Tensor>>& test) {
  return run_forward(test, [](const auto& arguments, DType dtype) { launch_attention_forward(arguments, dtype, {}); });
}
test::Values run_portable(const test::OpCase<op::AttentionPartForward<Tensor>>& test) {
  return run_forward(test, [](const auto& arguments, DType dtype) { launch_attention_forward(arguments, dtype, {}); });
}
namespace {

/// By two blocks, which run one after another: the first takes all slots, the second finds none.
void run_hopper_forward(AttentionArguments arguments, DType /*dtype*/) {
  std::array<int32_t, 2> tickets = {};
  arguments.tickets = tickets.data();
  launch_attention_forward_hopper(arguments, {.num_multiprocessors = 2});
  if (tickets != std::array<int32_t, 2>{}) throw InternalError("attention", "tickets are left", tickets[0], 0);
}

}  // namespace

test::Values run_hopper(const test::OpCase<op::AttentionForward<Tensor>>& test) {
  return run_forward(test, run_hopper_forward);
}
test::Values run_hopper(const test::OpCase<op::AttentionPartForward<Tensor>>& test) {
  return run_forward(test, run_hopper_forward);
}

test::Values run_portable(const test::OpCase<op::AttentionBackward<Tensor>>& test) {
  HostMemory memory(test.inputs);
  const auto op = test.op.map(memory);
  AttentionArguments arguments = whole_arguments(op);
  arguments.dout = op.dout.data;
  arguments.dqkv = op.dqkv.data;
  run_backward(arguments, op.qkv.dtype);
  return memory.outputs();
}

test::Values run_portable(const test::OpCase<op::AttentionPartBackward<Tensor>>& test) {
  HostMemory memory(test.inputs);
  const auto op = test.op.map(memory);
  AttentionArguments arguments = part_arguments(op);
  arguments.out = op.out.data;
  arguments.dout = op.dout.data;
  arguments.dqueries = op.dqueries.as<float>();
  arguments.dkeys_values = op.dkeys_values.as<float>();
  run_backward(arguments, op.qkv.dtype);
  return memory.outputs();
}

}  // namespace litespark::cuda
