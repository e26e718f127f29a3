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

TEST(PositionsChapter, MeasuresBothKindsAndCountsTheirBytes) {
  const auto backend = make_cpu_backend({.threads = 1});
  const Chapter chapter = positions_chapter(*backend, tiny_measure(),
                                            {.sequences = 1, .length = 64, .heads = 2, .kv_heads = 1, .head_dim = 8});
  EXPECT_EQ(number_of(chapter, "rope_bytes"), 64 * 8 * 4);
  EXPECT_EQ(number_of(chapter, "alibi_bytes"), 0);
  EXPECT_GT(number_of(chapter, "rope_forward"), 0);
  EXPECT_TRUE(std::isfinite(number_of(chapter, "alibi_forward")));
  EXPECT_EQ(table_of(chapter, "angles").rows.size(), 4u);
}

}  // namespace
}  // namespace litespark::anatomy
