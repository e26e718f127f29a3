// SPDX-License-Identifier: Apache-2.0
#include "spec/tape.h"

#include <algorithm>

#include "core/error.h"

namespace litespark {
namespace {

/// What has a lifetime of its own: a root, or a view that is a direct part of a carried one.
TensorId unit_of_life(const TensorTable& tensors, TensorId id) {
  const TensorId root = tensors.root(id).first;
  if (tensors[root].storage != Storage::kCarried) return root;
  while (id != root && tensors[id].parent != root) id = tensors[id].parent;
  return id;
}

/// Visits an op's tensors and widens the lifetimes of those in the arena.
struct UseRecorder {
  const TensorTable& tensors;
  std::vector<Lifetime>& lifetimes;   ///< indexed by unit_of_life; tensor unset while unused
  std::vector<TensorId>& carried_in;  ///< roots that the phase reads before it writes them
  bool takes_carried = false;
  std::string_view op;
  int32_t index = 0;

  void use(std::string_view field, TensorId id, bool reads) {
    if (!id.has_value()) return;
    const TensorId unit = unit_of_life(tensors, id);
    const bool is_carried = tensors[unit].storage == Storage::kCarried;
    if (tensors[unit].storage != Storage::kArena && !is_carried) return;
    Lifetime& lifetime = lifetimes[static_cast<size_t>(unit.index)];
    if (!lifetime.tensor.has_value()) {
      if (reads && is_carried && takes_carried) {
        carried_in.push_back(tensors.root(unit).first);
      } else if (reads) {
        throw InternalError(tensors[unit].name, "read before it is written", std::string(op) + "." + std::string(field),
                            "a write first");
      }
      lifetime = {unit, index, index};
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

PhaseLifetimes tape_lifetimes(const Tape& tape, const TensorTable& tensors, bool takes_carried) {
  std::vector<Lifetime> lifetimes(static_cast<size_t>(tensors.size()));
  std::vector<TensorId> carried_in;
  int32_t index = 0;
  for (const TapeEntry& entry : tape.entries()) {
    UseRecorder recorder{.tensors = tensors,
                         .lifetimes = lifetimes,
                         .carried_in = carried_in,
                         .takes_carried = takes_carried,
                         .op = op_name(entry.op),
                         .index = index++};
    std::visit([&](const auto& op) { op.map(recorder); }, entry.op);
  }
  for (Lifetime& lifetime : lifetimes) {
    if (!lifetime.tensor.has_value() || tensors[lifetime.tensor].storage != Storage::kCarried) continue;
    const TensorId root = tensors.root(lifetime.tensor).first;
    const bool is_whole = std::find(carried_in.begin(), carried_in.end(), root) != carried_in.end();
    lifetime = is_whole ? Lifetime{} : Lifetime{lifetime.tensor, lifetime.first, index - 1};
  }
  for (const TensorId root : carried_in) lifetimes[static_cast<size_t>(root.index)] = {root, 0, index - 1};
  PhaseLifetimes phase{.phase = tape.phase(), .num_ops = index, .lifetimes = {}};
  std::copy_if(lifetimes.begin(), lifetimes.end(), std::back_inserter(phase.lifetimes),
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
