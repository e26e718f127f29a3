// SPDX-License-Identifier: Apache-2.0
// Exact arithmetic and traffic of a tape by component ("qkv", "attention", "head"), forward, backward and recomputed:
// the very ops that training runs, counted before they run.
#pragma once

#include <map>
#include <string>

#include "spec/program.h"

namespace litespark {

struct ComponentCounts {
  double forward_flops = 0;
  double backward_flops = 0;
  double recomputed_flops = 0;
  double bytes = 0;  ///< all directions, every tensor but scratch once, updated ones twice
};

/// Counts op by op: fed with a tape's entries in order, or with those that an observer sees as they run.
class WorkCounter {
 public:
  explicit WorkCounter(const TensorTable& tensors) : tensors_(tensors) {}
  void add(const TapeEntry& entry);
  const std::map<std::string, ComponentCounts>& components() const { return components_; }
  ComponentCounts total() const;

 private:
  const TensorTable& tensors_;
  std::map<std::string, ComponentCounts> components_;
};

/// Of one micro-batch: the first one's tape.
WorkCounter count_micro_batch(const Program& program);

/// A table for people.
std::string counts_text(const WorkCounter& counter);
/// One object by component.
std::string counts_json(const WorkCounter& counter);

}  // namespace litespark
