// SPDX-License-Identifier: Apache-2.0
#include "core/memory_plan.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/arena_map.h"
#include "core/checked.h"
#include "core/error.h"

namespace litespark {
namespace {

struct Placed {
  int64_t begin = 0;
  int64_t end = 0;
  OpRange ops;
};

bool is_carried(const TensorTable& tensors, const Lifetime& lifetime) {
  return tensors[lifetime.tensor].storage == Storage::kCarried;
}

/// Views of a carried tensor lie as close as they are cut; everything else has its padding to itself.
int64_t placed_bytes(const TensorTable& tensors, const Lifetime& lifetime) {
  const int64_t bytes = tensors[lifetime.tensor].bytes();
  return is_carried(tensors, lifetime) ? bytes : round_up(bytes, kTensorAlignment);
}

struct Placement {
  std::vector<int64_t> offsets;  ///< one a lifetime
  int64_t extent = 0;
};

/// A phase's tensors, those that are placed already among them.
struct PlacementTask {
  const TensorTable& tensors;
  int32_t num_ops = 0;
  std::vector<Lifetime> free;
  std::vector<Placed> fixed;
};

/// Around what is fixed.
Placement place_in_order(const PlacementTask& task, const std::vector<size_t>& order) {
  Placement placement{.offsets = std::vector<int64_t>(task.free.size(), 0), .extent = 0};
  ArenaMap arena(task.num_ops);
  const auto take = [&](const Placed& entry) {
    arena.take(entry.begin, round_up(entry.end, kTensorAlignment), entry.ops);
    placement.extent = std::max(placement.extent, entry.end);
  };
  for (const Placed& entry : task.fixed) take(entry);
  for (const size_t index : order) {
    const Lifetime& lifetime = task.free[index];
    const OpRange ops{lifetime.first, lifetime.last};
    const int64_t bytes = placed_bytes(task.tensors, lifetime);
    const int64_t offset = arena.first_fit(bytes, ops);
    take({offset, offset + bytes, ops});
    placement.offsets[index] = offset;
  }
  return placement;
}

/// Largest first is nearly always best for training tapes; the others win on short forward tapes. Stops at the bound.
Placement best_placement(const PlacementTask& task, int64_t lower_bound) {
  const std::vector<Lifetime>& lifetimes = task.free;
  const auto bytes = [&](size_t i) { return task.tensors[lifetimes[i].tensor].bytes(); };
  const auto duration = [&](size_t i) { return int64_t{lifetimes[i].last} - lifetimes[i].first + 1; };
  const auto key = [&](int rule, size_t i) -> std::pair<int64_t, int64_t> {
    switch (rule) {
      case 0: return {-bytes(i), -duration(i)};
      case 1: return {-duration(i), -bytes(i)};
      case 2: return {lifetimes[i].first, -bytes(i)};
      default: return {-lifetimes[i].last, -bytes(i)};
    }
  };
  Placement best;
  for (int rule = 0; rule < 4; ++rule) {
    std::vector<size_t> order(lifetimes.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return key(rule, a) < key(rule, b); });
    Placement candidate = place_in_order(task, order);
    if (rule == 0 || candidate.extent < best.extent) best = std::move(candidate);
    if (best.extent == lower_bound) break;
  }
  return best;
}

}  // namespace

std::string_view owner_name(Owner owner) {
  static constexpr std::array<std::string_view, kNumOwners> kNames = {"weights",   "packed copies", "gradients",
                                                                      "optimizer", "activations",   "scratch",
                                                                      "batch",     "kv cache",      "communication"};
  return kNames.at(static_cast<size_t>(owner));
}

TensorId TensorTable::add(TensorInfo info) {
  if (!info.parent.has_value()) {
    constexpr int64_t kMost = int64_t{1} << 62;
    const auto bytes = checked_mul(info.shape.num_elements(), dtype_bytes(info.dtype));
    const auto total =
        bytes && *bytes < kMost ? checked_add(total_bytes_, round_up(*bytes, kTensorAlignment)) : std::nullopt;
    if (!total || *total > kMost) {
      throw ConfigError("memory", info.name + " takes the plan past what a machine can address", info.shape.to_string(),
                        "2^62 bytes at most for all tensors", "lower the batch or the model's sizes");
    }
    total_bytes_ = *total;
  }
  infos_.push_back(std::move(info));
  return {static_cast<int32_t>(infos_.size() - 1)};
}

TensorId TensorTable::view(TensorId parent, std::string name, Shape shape, int64_t offset_elements) {
  const TensorInfo& owner = (*this)[parent];
  TensorInfo info{.name = std::move(name),
                  .dtype = owner.dtype,
                  .shape = shape,
                  .owner = owner.owner,
                  .storage = owner.storage,
                  .parent = parent,
                  .offset_bytes = offset_elements * dtype_bytes(owner.dtype)};
  if (offset_elements < 0 || offset_elements + shape.num_elements() > owner.shape.num_elements()) {
    throw InternalError(info.name, "view leaves its parent", shape.to_string(), owner.shape.to_string());
  }
  return add(std::move(info));
}

TensorId TensorTable::rows(TensorId parent, int64_t first, int64_t count) {
  const TensorInfo& owner = (*this)[parent];
  Shape shape{count};
  int64_t row_elements = 1;
  for (int dim = 1; dim < owner.shape.rank(); ++dim) {
    shape.append(owner.shape[dim]);
    row_elements *= owner.shape[dim];
  }
  return view(parent, owner.name + ".rows" + std::to_string(first), shape, first * row_elements);
}

std::pair<TensorId, int64_t> TensorTable::root(TensorId id) const {
  int64_t offset = 0;
  while ((*this)[id].parent.has_value()) {
    offset += (*this)[id].offset_bytes;
    id = (*this)[id].parent;
  }
  return {id, offset};
}

PhasePeak measure_peak(const TensorTable& tensors, const PhaseLifetimes& phase, int32_t first_op, int32_t end_op) {
  std::vector<int64_t> delta(static_cast<size_t>(phase.num_ops) + 1, 0);
  for (const Lifetime& lifetime : phase.lifetimes) {
    const int64_t bytes = placed_bytes(tensors, lifetime);
    delta[static_cast<size_t>(lifetime.first)] += bytes;
    delta[static_cast<size_t>(lifetime.last) + 1] -= bytes;
  }
  PhasePeak peak{.phase = phase.phase, .peak_op = first_op};
  int64_t live = 0;
  for (int32_t op = 0; op < phase.num_ops; ++op) {
    live += delta[static_cast<size_t>(op)];
    if (op >= first_op && op < end_op && live > peak.live_bytes) {
      peak.live_bytes = live;
      peak.peak_op = op;
    }
  }
  for (const Lifetime& lifetime : phase.lifetimes) {
    if (lifetime.first > peak.peak_op || lifetime.last < peak.peak_op) continue;
    const TensorInfo& info = tensors[lifetime.tensor];
    peak.live_by_owner[static_cast<size_t>(info.owner)] += placed_bytes(tensors, lifetime);
  }
  return peak;
}

MemoryPlan::MemoryPlan(const TensorTable& tensors, std::span<const PhaseLifetimes> phases)
    : offsets_(static_cast<size_t>(tensors.size()), -1) {
  int64_t carried_bytes = 0;
  for (int32_t index = 0; index < tensors.size(); ++index) {
    const TensorInfo& info = tensors[{index}];
    if (info.storage == Storage::kArena || info.parent.has_value()) continue;
    const int64_t bytes = round_up(info.bytes(), kTensorAlignment);
    if (info.storage == Storage::kCarried) {
      offsets_[static_cast<size_t>(index)] = carried_bytes;
      carried_bytes += bytes;
      continue;
    }
    if (info.storage == Storage::kHost) {
      offsets_[static_cast<size_t>(index)] = host_bytes_;
      host_bytes_ += bytes;
      continue;
    }
    offsets_[static_cast<size_t>(index)] = persistent_bytes_;
    persistent_bytes_ += bytes;
    persistent_by_owner_[static_cast<size_t>(info.owner)] += bytes;
  }
  for (const PhaseLifetimes& phase : phases) place_phase(tensors, phase);
}

void MemoryPlan::place_phase(const TensorTable& tensors, const PhaseLifetimes& phase) {
  PhasePeak peak = measure_peak(tensors, phase, 0, phase.num_ops);
  PlacementTask task{.tensors = tensors, .num_ops = phase.num_ops, .free = {}, .fixed = {}};
  for (const Lifetime& lifetime : phase.lifetimes) {
    if (!is_carried(tensors, lifetime)) {
      task.free.push_back(lifetime);
      continue;
    }
    const auto [root, offset_in_root] = tensors.root(lifetime.tensor);
    const int64_t begin = offset(root) + offset_in_root;
    task.fixed.push_back({begin, begin + placed_bytes(tensors, lifetime), {lifetime.first, lifetime.last}});
  }
  const Placement placement = best_placement(task, peak.live_bytes);
  peak.arena_bytes = placement.extent;
  for (size_t i = 0; i < task.free.size(); ++i) {
    const TensorId tensor = task.free[i].tensor;
    int64_t& slot = offsets_[static_cast<size_t>(tensor.index)];
    if (slot >= 0) {
      throw InternalError(tensors[tensor].name, "arena tensor is used by two phases", phase.phase, "one phase");
    }
    slot = placement.offsets[i];
  }
  arena_bytes_ = std::max(arena_bytes_, peak.arena_bytes);
  phases_.push_back(std::move(peak));
}

}  // namespace litespark
