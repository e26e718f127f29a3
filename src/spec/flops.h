// SPDX-License-Identifier: Apache-2.0
// The arithmetic that training needs, whatever a program really executes: the numerator of MFU.
#pragma once

#include <cstdint>
#include <string>

#include "spec/model_config.h"

namespace litespark {

/// Parameters that take part in matrix products: all matrices without the input embedding, with the head (a tied head
/// too). Norms and biases are left out.
int64_t matmul_parameters(const ModelConfig& config);

/// Forward and backward of one token in a sequence of `seq_len`: 6 x matmul parameters + 6 L H D T. Attention counts
/// its causal half: 12 L H D T for scores and values both ways, halved. Recomputation never counts. Source: Chowdhery
/// et al. 2022 (PaLM), appendix B, with the causal half of Dao 2023 (FlashAttention-2).
double training_flops_per_token(const ModelConfig& config, int64_t seq_len);

/// The formula with its numbers, for people: "6 x 4.19 M + 6 L H D T (6 x 8 x 32 x 256)".
std::string training_flops_text(const ModelConfig& config, int64_t seq_len);

}  // namespace litespark
