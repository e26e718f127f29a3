// SPDX-License-Identifier: Apache-2.0
// How fast causal attention is, by generation of kernels, length of sequences and shape of heads.
#pragma once

#include "plan/hardware.h"

namespace litespark {

/// What a kernel's rate depends on.
struct AttentionHeads {
  double length = 0;  ///< of a sequence
  double width = 0;   ///< of a head
  double group = 1;   ///< heads of queries to one of keys
  bool is_backward = false;
};

/// FLOPs a second, at most the 16-bit peak: of ours what they reach alone, of others what they reach in a step.
double attention_rate(const Hardware& hardware, AttentionKernel kernel, const AttentionHeads& heads);

}  // namespace litespark
