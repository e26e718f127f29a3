// SPDX-License-Identifier: Apache-2.0
// Memory of one device under a layout that this program need not be able to run: what its software keeps, term by term.
// Our own runs' memory is exact and comes from the tape (plan/memory_table.h); this is the estimate for all others.
#pragma once

#include "plan/software.h"
#include "plan/workload.h"

namespace litespark {

/// Bytes by owner on the fullest pipeline stage.
struct LayoutMemory {
  double weights = 0;
  double gradients = 0;
  double optimizer = 0;    ///< masters and moments
  double activations = 0;  ///< kept for backward by all micro-batches in flight
  double logits = 0;
  double working = 0;    ///< one layer's recomputation and gradients, gathered weights, communication buffers
  double allocator = 0;  ///< what a caching allocator holds beyond its tensors

  double states() const { return weights + gradients + optimizer; }
  double total() const { return states() + activations + logits + working + allocator; }
};

LayoutMemory layout_memory(const Workload& workload, const Software& software);

/// Kept for backward by one layer for one micro-batch, on one rank.
double layer_activation_bytes(const Workload& workload, const Software& software, bool has_experts);

/// Layers whose activations the first stage keeps at its fullest: of p micro-batches in 1F1B, and (p - 1) / (p v) more
/// of a pass when chunks are interleaved (Korthikanti et al. 2022, equation 9 and section 4.2.3).
double layers_in_flight(const Workload& workload);

}  // namespace litespark
