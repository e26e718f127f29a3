// SPDX-License-Identifier: Apache-2.0
// Chapter `positions` (claim:C5, claim:L3): rotary positions against ALiBi, both as they are trained with: static
// bytes, time a token, and what angles of 16 bits would do.
#pragma once

#include "anatomy/chapter.h"
#include "anatomy/measure.h"
#include "spec/model_config.h"

namespace litespark::anatomy {

struct PositionSizes {
  int64_t sequences = 1;
  int64_t length = 2048;
  int64_t heads = 8;
  int64_t kv_heads = 8;
  int64_t head_dim = 64;
};

Chapter positions_chapter(Backend& backend, const MeasureOptions& options, const PositionSizes& sizes);

/// What keeping cosines and sines in one precision costs and loses, through the op that training, evaluation and
/// generation run.
struct RopeCost {
  double table_bytes = 0;
  double seconds = 0;        ///< of one rotation of all query and key heads in the compute dtype
  double f32_error = 0;      ///< rms error of rotated f32 values over their rms
  double compute_error = 0;  ///< the same where values are of the compute dtype, whose own rounding is in it
  double score_error = 0;    ///< largest error of q k over |q| |k|: the last query with every key, f32 values
};
RopeCost measure_rope(Backend& backend, const MeasureOptions& options, const PositionSizes& sizes,
                      RopePrecision precision);

/// How far cosines and sines are from those of double precision, at worst, up to a position.
struct AngleErrors {
  double bf16_angle = 0;  ///< position, frequency and their product each rounded to bf16
  double fp16_angle = 0;  ///< the same in IEEE half precision
  double f32_angle = 0;   ///< in f32
  double bf16_table = 0;  ///< angles in double, the cosine rounded to bf16
  double fp16_table = 0;  ///< the same in IEEE half precision
};
AngleErrors angle_errors(int64_t head_dim, int64_t last_position);

/// The nearest number with `bits` bits of mantissa, the leading one counted (8: bf16, 11: half, 24: f32), whatever its
/// exponent; ties to even.
double rounded_to_bits(double value, int bits);

}  // namespace litespark::anatomy
