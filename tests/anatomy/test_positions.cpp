// SPDX-License-Identifier: Apache-2.0
#include "anatomy/positions.h"
#include "anatomy/tiny_measure.h"
#include "core/bf16.h"

namespace litespark::anatomy {
namespace {

TEST(PositionsChapter, RoundsToBitsAsTheFormatsDo) {
  for (const double value : {257.0, 259.0, 0.1, -3.14159, 1e-5, 65000.0}) {
    EXPECT_EQ(rounded_to_bits(value, 8), static_cast<double>(to_float(to_bf16(static_cast<float>(value)))));
    EXPECT_EQ(rounded_to_bits(value, 24), static_cast<double>(static_cast<float>(value)));
  }
  EXPECT_EQ(rounded_to_bits(2049, 11), 2048);  // half precision has no odd numbers past 2048; ties to even
  EXPECT_EQ(rounded_to_bits(2051, 11), 2052);
  EXPECT_EQ(rounded_to_bits(0, 8), 0);
}

TEST(PositionsChapter, FindsAnglesOfSixteenBitsWorseTheLongerTheSequence) {
  const AngleErrors near = angle_errors(16, 200);
  const AngleErrors far = angle_errors(16, 2000);
  EXPECT_LT(near.bf16_angle, far.bf16_angle);
  EXPECT_LT(far.fp16_angle, far.bf16_angle);
  EXPECT_LT(far.f32_angle, far.fp16_angle);
  EXPECT_GT(far.bf16_angle, 1.0);  // position 257 is 256: a whole radian
  // A cosine near 1 has a unit of 2^-8 in bf16, whatever the position.
  EXPECT_NEAR(far.bf16_table, 0x1p-9, 1e-4);
}

TEST(PositionsChapter, MeasuresWhatEachPrecisionOfTheAnglesLoses) {
  const auto backend = make_cpu_backend({.threads = 1});
  const PositionSizes sizes{.sequences = 2, .length = 512, .heads = 2, .kv_heads = 1, .head_dim = 16};
  const auto cost = [&](RopePrecision precision) { return measure_rope(*backend, tiny_measure(), sizes, precision); };
  const RopeCost exact = cost(RopePrecision::kF32);
  const RopeCost half = cost(RopePrecision::kF16);
  const RopeCost bf16 = cost(RopePrecision::kBF16);
  EXPECT_EQ(exact.table_bytes, 512 * 16 * 4);
  EXPECT_EQ(bf16.table_bytes, 512 * 16 * 2);
  EXPECT_LT(exact.f32_error, 0x1p-22);
  EXPECT_LT(half.f32_error, 0x1p-11);
  EXPECT_NEAR(bf16.f32_error / half.f32_error, 8, 2);
  EXPECT_LT(bf16.f32_error, 0x1p-8);
  EXPECT_LT(exact.score_error, half.score_error);
  EXPECT_LT(half.score_error, bf16.score_error);
  EXPECT_LT(bf16.score_error, 0x1p-7);
}

TEST(PositionsChapter, MeasuresBothKindsAndCountsTheirBytes) {
  const auto backend = make_cpu_backend({.threads = 1});
  const Chapter chapter = positions_chapter(*backend, tiny_measure(),
                                            {.sequences = 1, .length = 64, .heads = 2, .kv_heads = 1, .head_dim = 8});
  EXPECT_EQ(number_of(chapter, "rope_bytes"), 64 * 8 * 4);
  EXPECT_EQ(number_of(chapter, "alibi_bytes"), 0);
  EXPECT_GT(number_of(chapter, "rope_forward"), 0);
  EXPECT_TRUE(std::isfinite(number_of(chapter, "alibi_forward")));
  EXPECT_EQ(table_of(chapter, "angles").rows.size(), 4u);
  EXPECT_EQ(table_of(chapter, "precision").rows.size(), 3u);
}

}  // namespace
}  // namespace litespark::anatomy
