// SPDX-License-Identifier: Apache-2.0
// Chapter `embedding` (claim:C4): bytes a second of looking rows up and of adding gradients back, against a plain copy,
// for tokens without a pattern and for tokens that repeat as words of a language do.
#pragma once

#include "anatomy/chapter.h"
#include "anatomy/measure.h"

namespace litespark::anatomy {

struct EmbeddingSizes {
  int64_t vocab = 50257;  ///< V
  int64_t hidden = 1024;  ///< C
  int64_t tokens = 8192;  ///< N
};

/// In f32, as the claim has it. Throws ConfigError when the device has no room for the table and its gradient.
Chapter embedding_chapter(Backend& backend, const MeasureOptions& options, const EmbeddingSizes& sizes);

/// N ids below V: each as likely as every other, or the i-th most frequent with a chance that falls as 1 / i (Zipf).
std::vector<int32_t> drawn_tokens(int64_t vocab, int64_t tokens, bool by_frequency);

}  // namespace litespark::anatomy
