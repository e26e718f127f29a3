// SPDX-License-Identifier: Apache-2.0
// One measured row predicted: step time in whatever unit it is stated, memory by what the row counts, energy by
// arithmetic, bus bandwidth by the collectives' model.
#pragma once

#include "plan/validation.h"

namespace litespark {

/// `slowness` multiplies the seconds of a step. `file` gives energy rows the hours that their source states.
RowPrediction predict_row(const ValidationRow& row, const ValidationFile& file, const SlownessByDevice& slowness);

}  // namespace litespark
