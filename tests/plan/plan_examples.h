// SPDX-License-Identifier: Apache-2.0
// Workloads that several tests of the planner start from.
#pragma once

#include "plan/workload.h"

namespace litespark::test {

inline Workload llama_8b_workload() {
  Workload workload;
  workload.shape = {.layers = 32,
                    .hidden = 4096,
                    .heads = 32,
                    .kv_heads = 8,
                    .head_dim = 128,
                    .ffn = 14336,
                    .vocab = 128256,
                    .gated = true,
                    .tied = false,
                    .experts = {},
                    .latent = {}};
  workload.seq_len = 8192;
  workload.micro_batch = 1;
  workload.global_batch = 128;
  workload.layout.dp = 8;
  return workload;
}

/// Korthikanti et al. 2022, table 3: 22 billion parameters on eight devices.
inline Workload gpt_22b_workload() {
  Workload workload;
  workload.shape = {.layers = 48,
                    .hidden = 6144,
                    .heads = 64,
                    .kv_heads = 64,
                    .head_dim = 96,
                    .ffn = 24576,
                    .vocab = 51200,
                    .gated = false,
                    .tied = true,
                    .experts = {},
                    .latent = {}};
  workload.seq_len = 2048;
  workload.micro_batch = 4;
  workload.global_batch = 4;
  workload.layout.tp = 8;
  workload.layout.sequence_parallel = false;
  return workload;
}

}  // namespace litespark::test
