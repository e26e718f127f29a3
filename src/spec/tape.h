// SPDX-License-Identifier: Apache-2.0
// A tape is the program of one phase: ops on symbolic tensors, in order. Memory lifetimes, FLOP counts, timeline scopes
// and execution all come from this one list, so they cannot disagree.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/memory_plan.h"
#include "core/op/all.h"
#include "core/tensor.h"

namespace litespark {

struct TapeEntry {
  op::AnyOp<TensorId> op;
  std::string_view scope;      ///< "forward.attention": where the meter books its time; a string literal
  int32_t layer = -1;          ///< -1 outside the blocks
  bool is_recomputed = false;  ///< of forward a second time, for a backward
};

class Tape {
 public:
  explicit Tape(std::string phase) : phase_(std::move(phase)) {}

  /// Scope and layer of the ops pushed from here on.
  void enter(std::string_view scope, int64_t layer = -1) {
    scope_ = scope;
    layer_ = static_cast<int32_t>(layer);
  }
  /// Whether forward ops pushed from here on were there before.
  void set_recomputing(bool is_on) { is_recomputing_ = is_on; }
  template <class Op>
  void push(Op op) {
    entries_.push_back({std::move(op), scope_, layer_, is_recomputing_ && scope_.starts_with("forward")});
  }

  const std::string& phase() const { return phase_; }
  const std::vector<TapeEntry>& entries() const { return entries_; }

 private:
  std::string phase_;
  std::string_view scope_ = "";
  int32_t layer_ = -1;
  bool is_recomputing_ = false;
  std::vector<TapeEntry> entries_;
};

/// First and last use of every arena tensor (views count for their root). Throws InternalError when an op reads an
/// arena tensor that nothing wrote before, or a carried one that it does not take from another phase.
PhaseLifetimes tape_lifetimes(const Tape& tape, const TensorTable& tensors, bool takes_carried = false);

/// The same op on memory: `resolve(TensorId) -> Tensor` is asked for every tensor that is present.
template <class Resolve>
op::AnyOp<Tensor> bind_op(const op::AnyOp<TensorId>& symbolic, const Resolve& resolve) {
  struct Binder {
    const Resolve& resolve;
    Tensor get(TensorId id) const { return id.has_value() ? resolve(id) : Tensor{}; }
    Tensor out(std::string_view, TensorId id) const { return get(id); }
    Tensor in(std::string_view, TensorId id) const { return get(id); }
    Tensor inout(std::string_view, TensorId id) const { return get(id); }
  };
  return std::visit([&](const auto& op) -> op::AnyOp<Tensor> { return op.map(Binder{resolve}); }, symbolic);
}

/// Tensors with shapes and no memory: what a planner or a validity check needs.
op::AnyOp<Tensor> bind_shapes(const op::AnyOp<TensorId>& symbolic, const TensorTable& tensors);

/// The op's name, for messages and timelines.
std::string_view op_name(const op::AnyOp<TensorId>& op);

}  // namespace litespark
