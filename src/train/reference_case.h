// SPDX-License-Identifier: Apache-2.0
// A reference case: a model folder with case.json (what was done) and case.safetensors (the numbers that another
// framework got). The layout is described in tests/golden/README.md.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "io/hf_folder.h"
#include "spec/model_config.h"

namespace litespark {

struct ReferenceCase {
  std::string kind;  ///< "causal-lm" or "packed-documents"
  ModelConfig config;

  int64_t batch = 1;                      ///< B
  int64_t length = 0;                     ///< T
  std::vector<int64_t> document_lengths;  ///< packed-documents: of the one row; else B times T
  int64_t steps = 1;                      ///< optimizer steps; packed-documents: 1 without an update
  bool has_update = false;

  double lr = 0, beta1 = 0, beta2 = 0, eps = 0, weight_decay = 0, clip_norm = 0;
  std::vector<double> losses;      ///< one a step
  std::vector<double> grad_norms;  ///< one a step, before clipping; empty when the case has none

  /// [B T] tokens and unshifted labels of step s.
  struct StepTokens {
    std::vector<int32_t> ids, labels;
  };
  std::vector<StepTokens> tokens;
};

/// Reads and checks a case's description. Throws ConfigError for a kind that is not supported, DataError for a
/// malformed case.
ReferenceCase read_reference_case(const std::filesystem::path& folder);

}  // namespace litespark
