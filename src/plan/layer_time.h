// SPDX-License-Identifier: Apache-2.0
// One layer of one micro-batch on one rank: each op by the longer of its arithmetic and its traffic, communication by
// the collectives' model, exposed as far as the software does not hide it.
#pragma once

#include "plan/hardware.h"
#include "plan/software.h"
#include "plan/workload.h"

namespace litespark {

/// Seconds by cause. `forward` and `backward` are their sums in each direction.
struct LayerSeconds {
  double forward = 0;
  double backward = 0;  ///< with what is recomputed
  double matmul = 0;    ///< of both directions, recomputation left out
  double attention = 0;
  double pointwise = 0;
  double recompute = 0;
  double tensor = 0;   ///< exposed collectives of tensor and sequence parallelism
  double context = 0;  ///< exposed exchange of keys and values
  double expert = 0;   ///< all-to-all to experts and back

  double total() const { return forward + backward; }
};

LayerSeconds layer_seconds(const Workload& workload, const Software& software, const Hardware& hardware,
                           bool has_experts);

/// Final norm, head and loss; with rows in stretches also what the embedding's travel for.
LayerSeconds head_seconds(const Workload& workload, const Software& software, const Hardware& hardware);

/// [rows, k] x [k, columns] on one device.
double matmul_seconds(double rows, double columns, double k, const Hardware& hardware, OperandPrecision precision);

}  // namespace litespark
