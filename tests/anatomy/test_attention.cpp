// SPDX-License-Identifier: Apache-2.0
#include "anatomy/attention.h"
#include "anatomy/tiny_measure.h"

namespace litespark::anatomy {
namespace {

TEST(AttentionChapter, CountsEveryPairThatIsSeenAndNoOther) {
  const op::AttentionShape shape{.num_heads = 3, .num_kv_heads = 1, .head_dim = 4, .max_documents = 2, .max_length = 5};
  const AttentionCounts counts = count_attention(shape, DType::kF32);
  // 15 pairs of a sequence, two sequences, three heads, scores and values: 2 x 2 x 4 FLOPs each.
  EXPECT_EQ(counts.forward_flops, 15 * 2 * 3 * 16);
  EXPECT_EQ(counts.backward_flops, 2.5 * counts.forward_flops);
  // q and out [10, 12], k and v [10, 4], f32; one statistic a head and row.
  EXPECT_EQ(counts.tensor_bytes, 4 * (120 + 120 + 40 + 40) + 4 * 30);
  EXPECT_EQ(counts.naive_bytes, 4 * (120 + 120 + 40 + 40) + 4 * 4 * 2 * 3 * 25);
}

TEST(AttentionChapter, FindsNoEmptyAreaWhereTilesDivideTheSequence) {
  op::AttentionShape shape{.num_heads = 1, .num_kv_heads = 1, .head_dim = 4, .max_documents = 1, .max_length = 256};
  EXPECT_EQ(count_attention(shape, DType::kF32).empty_share, 0);
  shape.max_length = 257;
  const double one_over = count_attention(shape, DType::kF32).empty_share;
  shape.max_length = 64;
  EXPECT_EQ(count_attention(shape, DType::kF32).empty_share, 0.75);
  // Of six tiles three lie in the row of one query: 127 of its 128 rows are empty, and columns of the last as well.
  EXPECT_NEAR(one_over, (2 * 127.0 / 128 + 1 - 1.0 / (128 * 128)) / 6, 1e-12);
}

TEST(AttentionChapter, MeasuresEveryLengthBothWaysAndSavesMoreInLongerOnes) {
  const auto backend = make_cpu_backend({.threads = 2});
  const Chapter chapter = attention_chapter(
      *backend, tiny_measure(), {.tokens = 64, .heads = 2, .kv_heads = 1, .head_dim = 8, .lengths = {16, 40, 512}});
  const Table& table = table_of(chapter, "lengths");
  ASSERT_EQ(table.rows.size(), 3u);
  EXPECT_EQ(table.rows[0][0].text, "4 x 16");
  EXPECT_EQ(table.rows[2][0].text, "1 x 512");
  for (const size_t column : {1u, 3u}) {
    for (const double seconds : column_of(table, column)) EXPECT_GT(seconds, 0);
  }
  const std::vector<double> saved = column_of(table, 8);
  EXPECT_LT(saved[1], saved[2]);
  EXPECT_EQ(number_of(chapter, "published_growth"), 64);
}

}  // namespace
}  // namespace litespark::anatomy
