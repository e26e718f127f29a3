// SPDX-License-Identifier: Apache-2.0
// Chapter `norm` (claim:C8): how the gradient of the residual stream grows on its way down through the norms, measured
// block by block, and what backward needs of memory beside forward, by the plan.
#pragma once

#include "anatomy/chapter.h"
#include "anatomy/prepared_model.h"

namespace litespark::anatomy {

/// L2 norms of the residual stream's gradient below each block of one backward pass; `top` is what enters the last
/// block.
struct StreamGradients {
  double top = 0;
  std::vector<double> layers;  ///< by layer, 0 the lowest
};
StreamGradients stream_gradients(PreparedModel& model);

Chapter norm_chapter(Backend& backend, const MeasureOptions& options, const ModelSizes& sizes);

}  // namespace litespark::anatomy
