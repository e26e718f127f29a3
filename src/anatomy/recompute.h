// SPDX-License-Identifier: Apache-2.0
// Chapter `recompute` (claim:C10): what each option of recomputation, and every k, costs in time and saves in memory;
// the gradients must have the same bits.
#pragma once

#include "anatomy/chapter.h"
#include "anatomy/prepared_model.h"

namespace litespark::anatomy {

/// The model is run once for each option and for every k from 1 to its layers.
Chapter recompute_chapter(Backend& backend, const MeasureOptions& options, const ModelSizes& sizes);

}  // namespace litespark::anatomy
