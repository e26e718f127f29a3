// SPDX-License-Identifier: Apache-2.0
// All layouts of a run over a number of devices, with micro-batch and recompute: the best that fits, and why the others
// do not.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "plan/step_time.h"

namespace litespark {

enum class SearchGoal : uint8_t { kFastest, kCheapest, kGreenest };

struct SearchQuestion {
  Workload
      workload;  ///< shape, sequence, global batch, precision; its layout, micro-batch and recompute are tried anew
  Software software;
  Hardware hardware;
  int64_t gpus = 1;
  SearchGoal goal = SearchGoal::kFastest;
  /// Of a device's memory: the rest is left to drivers and libraries.
  double memory_share = 0.94;
  bool tries_fp8 = false;
  size_t keep = 5;
};

struct SearchPlan {
  Workload workload;
  StepSeconds step;
  double memory_bytes = 0;
  double joules_a_step = 0;  ///< of devices and the rest of their nodes
};

struct SearchResult {
  std::vector<SearchPlan> plans;  ///< best first, each within the memory; empty when nothing fits
  int64_t tried = 0;
  std::map<std::string, int64_t> why_not;  ///< reason, and how many it ruled out
  SearchPlan smallest;                     ///< of those that do not fit, the one that misses by the least
  bool has_smallest = false;
};

/// Throws ConfigError for 0 devices, a batch or shape that cannot be, hardware without a peak.
SearchResult search_layouts(const SearchQuestion& question);

std::string search_text(const SearchResult& result, const SearchQuestion& question);
std::string search_json(const SearchResult& result);

}  // namespace litespark
