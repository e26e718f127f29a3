// SPDX-License-Identifier: Apache-2.0
// What is to be trained and how it is laid out over devices: the question that time and memory answer.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "plan/transformer.h"

namespace litespark {

/// Degrees; gpus = dp tp pp cp. Neighbours in a node share, from the inside out: tp, cp, dp, pp.
struct Layout {
  int64_t dp = 1;
  int64_t tp = 1;
  int64_t pp = 1;
  int64_t cp = 1;
  int64_t ep = 1;   ///< experts are spread over these of the dp x cp ranks
  int64_t vpp = 1;  ///< chunks of layers a pipeline rank holds (interleaved 1F1B)
  /// Layers of each of the pp x vpp ranges in the model's order; empty: as the software shares them out.
  std::vector<int64_t> range_layers = {};
  bool sequence_parallel = true;
  int64_t gpus() const { return dp * tp * pp * cp; }
  int64_t data_ranks() const { return dp * cp; }
  /// "dp 4 x tp 8 x pp 2": degrees above 1; "one device".
  std::string text() const;
};

enum class LayerRecompute : uint8_t { kNone, kSelective, kFull };
enum class OperandPrecision : uint8_t { kBF16, kFP8 };

struct Workload {
  TransformerShape shape;
  int64_t seq_len = 0;
  int64_t micro_batch = 1;  ///< sequences
  int64_t global_batch = 1;
  LayerRecompute recompute = LayerRecompute::kNone;
  OperandPrecision precision = OperandPrecision::kBF16;
  Layout layout;

  /// Micro-batches of one pipeline in a step.
  double micro_batches() const {
    return static_cast<double>(global_batch) / static_cast<double>(micro_batch * layout.dp);
  }
  /// Tokens of a micro-batch on one rank of the context-parallel group.
  double rank_tokens() const {
    return static_cast<double>(micro_batch) * static_cast<double>(seq_len) / static_cast<double>(layout.cp);
  }
  double step_tokens() const { return static_cast<double>(global_batch) * static_cast<double>(seq_len); }
};

/// Throws ConfigError naming the degree that does not divide what it splits, a size that is not positive, or products
/// that overflow. `section` is what stands in front of a degree where it was read: "cluster." in run files.
void check_workload(const Workload& workload, std::string_view section = {});

/// Of each pipeline stage, where Layout::range_layers are given.
std::vector<int64_t> layers_of_stages(const Layout& layout);

/// Layers of the fullest pipeline stage. Embedding and head count as a layer each where only that makes the stages
/// even (126 layers over 8 stages of 8 chunks).
double layers_of_fullest_stage(const Workload& workload);

}  // namespace litespark
