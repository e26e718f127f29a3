// SPDX-License-Identifier: Apache-2.0
// Chapter `kernels` (claim:C18, claim:L2, claim:L5): every op of a training step on the device's own time line, its
// arithmetic and traffic over what this machine reaches at best.
#pragma once

#include "anatomy/ceilings.h"
#include "anatomy/chapter.h"
#include "anatomy/prepared_model.h"

namespace litespark::anatomy {

/// Ops of one scope ("forward.gate_up") or one layer, of one micro-batch.
struct KernelCost {
  std::string name;
  int num_ops = 0;
  double seconds = 0;
  double flops = 0;
  double bytes = 0;
};

struct KernelCosts {
  std::vector<KernelCost> components;  ///< by scope, in the order of the tape
  std::vector<KernelCost> layers;
  KernelCost whole;
  /// The sum of components whose scope ends so (".attention"), or nothing.
  KernelCost sum_of(std::initializer_list<std::string_view> scopes) const;
};
/// Medians over `num_runs` micro-batches, op by op.
KernelCosts measure_kernels(PreparedModel& model, int num_runs);

struct KernelSizes {
  ModelSizes model;
  CeilingSizes ceilings;
  int num_runs = 3;
};

/// `measured`, when present, receives the machine's figures for the planner.
Chapter kernels_chapter(Backend& backend, const MeasureOptions& options, const KernelSizes& sizes,
                        Hardware* measured = nullptr);

}  // namespace litespark::anatomy
