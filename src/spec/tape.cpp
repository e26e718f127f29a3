// SPDX-License-Identifier: Apache-2.0
#include "spec/tape.h"

#include <algorithm>

#include "core/error.h"

namespace litespark {
namespace {

/// Visits an op's tensors and widens the lifetimes of those in the arena.
struct UseRecorder {
  const TensorTable& tensors;
  std::vector<Lifetime>& by_root;  ///< indexed by root; tensor unset while unused
  std::string_view op;
  int32_t index = 0;

  void use(std::string_view field, TensorId id, bool reads) {
    if (!id.has_value()) return;
    const TensorId root = tensors.root(id).first;
    if (tensors[root].storage != Storage::kArena) return;
    Lifetime& lifetime = by_root[static_cast<size_t>(root.index)];
    if (!lifetime.tensor.has_value()) {
      if (reads) {
        throw InternalError(tensors[root].name, "read before it is written", std::string(op) + "." + std::string(field),
                            "a write first");
      }
      lifetime = {root, index, index};
    }
    lifetime.last = index;
  }
  TensorId out(std::string_view field, TensorId id) {
    use(field, id, false);
    return id;
  }
  TensorId in(std::string_view field, TensorId id) {
    use(field, id, true);
    return id;
  }
  TensorId inout(std::string_view field, TensorId id) { return in(field, id); }
};

}  // namespace

PhaseLifetimes tape_lifetimes(const Tape& tape, const TensorTable& tensors) {
  std::vector<Lifetime> by_root(static_cast<size_t>(tensors.size()));
  int32_t index = 0;
  for (const TapeEntry& entry : tape.entries()) {
    UseRecorder recorder{.tensors = tensors, .by_root = by_root, .op = op_name(entry.op), .index = index++};
    std::visit([&](const auto& op) { op.map(recorder); }, entry.op);
  }
  PhaseLifetimes phase{.phase = tape.phase(), .num_ops = index, .lifetimes = {}};
  std::copy_if(by_root.begin(), by_root.end(), std::back_inserter(phase.lifetimes),
               [](const Lifetime& lifetime) { return lifetime.tensor.has_value(); });
  return phase;
}

op::AnyOp<Tensor> bind_shapes(const op::AnyOp<TensorId>& symbolic, const TensorTable& tensors) {
  return bind_op(symbolic, [&](TensorId id) {
    return Tensor{.data = nullptr, .dtype = tensors[id].dtype, .shape = tensors[id].shape};
  });
}

std::string_view op_name(const op::AnyOp<TensorId>& op) {
  return std::visit([](const auto& value) { return value.kName; }, op);
}

}  // namespace litespark
