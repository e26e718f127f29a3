// SPDX-License-Identifier: Apache-2.0
// The memory of a run before it starts: who owns how much, each phase's peak, forward beside backward. `litespark plan`
// and `litespark train` print this same table.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "spec/program.h"

namespace litespark {

/// Arena bytes that live at the worst op of one stretch of a tape.
struct StretchPeak {
  std::string name;  ///< "train_first forward", "eval"
  int64_t live_bytes = 0;
  std::array<int64_t, kNumOwners> live_by_owner{};
  std::string scope;   ///< of the op at the peak: "backward.attention"
  int32_t layer = -1;  ///< of that op; -1 outside the blocks
};

struct MemoryTable {
  std::array<int64_t, kNumOwners> persistent_by_owner{};
  /// In tape order; a training tape gives its forward and its backward, that of a pipeline stage its whole.
  std::vector<StretchPeak> stretches;
  std::vector<PhasePeak> phases;
  int64_t persistent_bytes = 0;
  int64_t arena_bytes = 0;        ///< the largest phase's
  int64_t host_bytes = 0;         ///< pinned host memory of offloaded activations; no part of the total
  bool is_exact = false;          ///< library sizes come from the linked backend, else they are estimates
  int64_t beyond_plan_bytes = 0;  ///< driver, libraries, graphs, on a CPU the rest of the process; predicted
  std::optional<int64_t> measured_beyond_plan_bytes;  ///< the same, when a run has seen it

  int64_t total_bytes() const { return persistent_bytes + arena_bytes; }
};

/// `program` must be planned (Program::memory).
MemoryTable make_memory_table(const Program& program);

/// For people: a table of owners by stretch, then one of phases, then the total.
std::string format_memory_table(const MemoryTable& table);

/// One JSON object: "persistent_bytes", "arena_bytes", "total_bytes", "host_bytes", "exact", "beyond_plan" with
/// "predicted_bytes" and "measured_bytes" (null before a run has measured it), "owners", "peaks", "phases".
std::string memory_table_json(const MemoryTable& table);

}  // namespace litespark
