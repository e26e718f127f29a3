// SPDX-License-Identifier: Apache-2.0
// Chapter `fragmentation` (claim:C11): the temporary tensors of one training step, asked for and given back in the
// order of its tape, through a model of a caching allocator and through our plan. Computes; measures no time.
#pragma once

#include "anatomy/caching_allocator.h"
#include "anatomy/chapter.h"
#include "anatomy/prepared_model.h"

namespace litespark::anatomy {

struct FragmentationSizes {
  /// Its `length` is replaced by each of `lengths`.
  ModelSizes model = {.vocab = 128256,
                      .hidden = 2048,
                      .ffn = 8192,
                      .layers = 16,
                      .heads = 32,
                      .kv_heads = 8,
                      .sequences = 1,
                      .length = 0};
  std::vector<int64_t> lengths = {2048, 8192, 16384, 32768};
  /// Steps whose longest sequence varies, between half and all of the length.
  int num_steps = 12;
};

Chapter fragmentation_chapter(const BackendSizes& sizes, DType compute, const FragmentationSizes& wanted);

/// Asks for every arena tensor of a phase at its first use and gives it back after its last.
void replay_lifetimes(CachingAllocator& allocator, const TensorTable& tensors, const PhaseLifetimes& phase);

}  // namespace litespark::anatomy
