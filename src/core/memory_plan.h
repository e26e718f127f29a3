// SPDX-License-Identifier: Apache-2.0
// Every tensor of a run, declared before any memory exists, and the placement of the temporary ones in one arena.
// The peak is known before the run, the steady state allocates nothing, and every byte has an owner.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/dtype.h"
#include "core/shape.h"
#include "core/tensor.h"

namespace litespark {

enum class Owner : uint8_t {
  kWeights,       ///< compute copies of the parameters
  kPackedCopies,  ///< weights in a matmul library's layout
  kGradients,
  kOptimizer,    ///< master weights and moments
  kActivations,  ///< kept from forward to backward, or passed between neighbouring ops
  kScratch,      ///< lives within one op
  kBatch,        ///< token ids, labels, positions, offsets, step state
  kKvCache,
  kCommunication,
};
inline constexpr int kNumOwners = 9;
std::string_view owner_name(Owner owner);

/// Start of every tensor, in bytes.
inline constexpr int64_t kTensorAlignment = 256;

enum class Storage : uint8_t {
  kPersistent,  ///< lives as long as the run
  kArena,       ///< lives from its first to its last use on its phase's tape
  /// In the arena, from one phase to others that run right behind it: each of its views from the first write to the end
  /// of the phase that fills it, the whole of it throughout phases that read it first.
  kCarried,
  kHost,  ///< persistent, in pinned host memory
};

struct TensorInfo {
  std::string name;  ///< dotted: "layers.3.qkv.gradient"; scratch shares one
  DType dtype = DType::kF32;
  Shape shape;
  Owner owner = Owner::kActivations;
  Storage storage = Storage::kArena;
  TensorId parent;           ///< set for views: memory belongs to the parent
  int64_t offset_bytes = 0;  ///< within the parent, for views

  int64_t bytes() const { return shape.num_elements() * dtype_bytes(dtype); }
};

/// All tensors of a program. Rows are only ever added. ConfigError when all of them would pass 2^62 bytes, so that no
/// sum of sizes can wrap.
class TensorTable {
 public:
  TensorId add(TensorInfo info);
  /// A part of `parent`'s memory seen with its own shape; `offset_elements` counts elements of the parent's dtype.
  /// Throws InternalError when it does not fit inside.
  TensorId view(TensorId parent, std::string name, Shape shape, int64_t offset_elements);
  /// Rows [first, first + count) of a tensor's outermost dimension.
  TensorId rows(TensorId parent, int64_t first, int64_t count);

  const TensorInfo& operator[](TensorId id) const { return infos_.at(static_cast<size_t>(id.index)); }
  int64_t size() const { return static_cast<int64_t>(infos_.size()); }
  /// The tensor that owns the memory, and the byte offset of `id` within it.
  std::pair<TensorId, int64_t> root(TensorId id) const;

 private:
  std::vector<TensorInfo> infos_;
  int64_t total_bytes_ = 0;  ///< of roots, padded
};

/// First and last op (indices on one tape) at which a root tensor, or a view of a carried one, must hold its bytes.
struct Lifetime {
  TensorId tensor;
  int32_t first = 0;
  int32_t last = 0;
};

/// The arena tensors of one phase with their lifetimes. Phases never run at the same time and share the arena.
struct PhaseLifetimes {
  std::string phase;
  int32_t num_ops = 0;
  std::vector<Lifetime> lifetimes;
};

/// What one phase needs of the arena.
struct PhasePeak {
  std::string phase;
  int64_t arena_bytes = 0;  ///< extent of the placement
  int64_t live_bytes = 0;   ///< largest sum of living tensors at any op: the lower bound of arena_bytes
  int32_t peak_op = 0;      ///< an op at which live_bytes is reached
  std::array<int64_t, kNumOwners> live_by_owner{};  ///< at peak_op
};

/// The largest sum of living tensors among ops [first_op, end_op) of a phase; arena_bytes stays 0, peak_op is counted
/// from the phase's start.
PhasePeak measure_peak(const TensorTable& tensors, const PhaseLifetimes& phase, int32_t first_op, int32_t end_op);

class MemoryPlan {
 public:
  /// Places persistent tensors one after another, carried ones at the start of the arena, and arena tensors first-fit
  /// around what lives of those, in the best of a few fixed orders; deterministic.
  MemoryPlan(const TensorTable& tensors, std::span<const PhaseLifetimes> phases);

  int64_t persistent_bytes() const { return persistent_bytes_; }
  int64_t arena_bytes() const { return arena_bytes_; }
  /// On the device.
  int64_t total_bytes() const { return persistent_bytes_ + arena_bytes_; }
  /// Pinned beside it.
  int64_t host_bytes() const { return host_bytes_; }
  const std::vector<PhasePeak>& phases() const { return phases_; }
  /// Persistent bytes of each owner (alignment padding counted).
  const std::array<int64_t, kNumOwners>& persistent_by_owner() const { return persistent_by_owner_; }

  /// Byte offset of a root tensor: within the persistent block, the arena (carried ones too) or the host block, as its
  /// storage says.
  /// -1 for arena tensors that no tape uses.
  int64_t offset(TensorId root) const { return offsets_.at(static_cast<size_t>(root.index)); }

 private:
  void place_phase(const TensorTable& tensors, const PhaseLifetimes& phase);

  std::vector<int64_t> offsets_;
  int64_t persistent_bytes_ = 0;
  int64_t arena_bytes_ = 0;
  int64_t host_bytes_ = 0;
  std::array<int64_t, kNumOwners> persistent_by_owner_{};
  std::vector<PhasePeak> phases_;
};

}  // namespace litespark
