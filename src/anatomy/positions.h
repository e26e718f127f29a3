// SPDX-License-Identifier: Apache-2.0
// Chapter `positions` (claim:C5, claim:L3): rotary positions against ALiBi, both as they are trained with: static
// bytes, time a token, and what angles of 16 bits would do.
#pragma once

#include "anatomy/chapter.h"
#include "anatomy/measure.h"

namespace litespark::anatomy {

struct PositionSizes {
  int64_t sequences = 1;
  int64_t length = 2048;
  int64_t heads = 8;
  int64_t kv_heads = 8;
  int64_t head_dim = 64;
};

Chapter positions_chapter(Backend& backend, const MeasureOptions& options, const PositionSizes& sizes);

/// How far cosines and sines are from those of double precision, at worst, up to a position.
struct AngleErrors {
  double bf16_angle = 0;  ///< position, frequency and their product each rounded to bf16
  double fp16_angle = 0;  ///< the same in IEEE half precision
  double f32_angle = 0;   ///< in f32
  double bf16_table = 0;  ///< angles in double, the cosine rounded to bf16
};
AngleErrors angle_errors(int64_t head_dim, int64_t last_position);

/// The nearest number with `bits` bits of mantissa, the leading one counted (8: bf16, 11: half, 24: f32), whatever its
/// exponent; ties to even.
double rounded_to_bits(double value, int bits);

}  // namespace litespark::anatomy
