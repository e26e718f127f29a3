// SPDX-License-Identifier: Apache-2.0
// Chapter `width` (claim:L6): the feed-forward products at the asked width and at aligned ones near it, timed on this
// machine; what the extra columns cost and whether any are worth it.
#pragma once

#include "anatomy/chapter.h"
#include "anatomy/measure.h"
#include "plan/width_table.h"

namespace litespark::anatomy {

struct WidthSizes {
  int64_t rows = 512;
  int64_t hidden = 1024;
  int64_t width = 2752;
};

/// The asked width and its neighbours that are multiples of 64, 128, 256 and so on up to a quarter of it,
/// rising.
std::vector<int64_t> candidate_widths(int64_t width);

/// Times every candidate. Throws ConfigError when the device has no room for the weights.
WidthTable measure_widths(Backend& backend, const MeasureOptions& options, const WidthSizes& sizes);

Chapter width_chapter(const WidthTable& table, int64_t width);

}  // namespace litespark::anatomy
