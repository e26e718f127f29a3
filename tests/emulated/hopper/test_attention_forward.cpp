// SPDX-License-Identifier: Apache-2.0
// The Hopper attention forward's own source on the CPU, over emulated copies, barriers and tensor cores: whole, and in
// the parts that context ranks share.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "attention_ops.h"
#include "core/error.h"
#include "ops/attention_part_cases.h"

namespace litespark::test {
namespace {

void expect_whole(const AttentionCase& c) {
  const auto test = c.forward(1);
  const Values truth = reference::evaluate<double>(test.op, test.inputs);
  const Values found = cuda::run_hopper(test);
  for (const char* name : {"out", "log_sum_exp"}) expect_near_all(c.name(), found.at(name), truth.at(name), 1e-2);
}

/// The same case after op::Rope, whose results are rounded to bf16, without a rotation on load.
OpCase<op::AttentionForward<Tensor>> after_rope(const OpCase<op::AttentionForward<Tensor>>& test) {
  auto after = test;
  const op::Rope<Tensor> rope = op::rotation_of(test.op, test.op.qkv, false);
  std::vector<double>& qkv = after.inputs.tensors["qkv"];
  qkv = reference::evaluate<float>(rope, test.inputs).at("qkv");
  for (double& value : qkv) value = round_to(DType::kBF16, value);
  after.op.table = after.op.positions = after.op.rotated = {};
  return after;
}

/// Rotated on load: near the truth, and the bits of op::Rope and the plain form. run_hopper holds qkv to what it was.
void expect_rotated(const AttentionCase& c) {
  const auto test = c.forward(1);
  const Values truth = reference::evaluate<double>(test.op, test.inputs);
  Values found = cuda::run_hopper(test);
  Values expected = cuda::run_hopper(after_rope(test));
  for (Values* values : {&found, &expected}) cuda::clear_off_heads(c, c.out_columns(), values->tensors["out"]);
  expect_near_all(c.name(), found.at("out"), truth.at("out"), 1e-2);
  EXPECT_EQ(found.at("out"), expected.at("out")) << c.name();
  if (!c.off_heads.empty()) return;
  expect_near_all(c.name(), found.at("log_sum_exp"), truth.at("log_sum_exp"), 1e-2);
  EXPECT_EQ(found.at("log_sum_exp"), expected.at("log_sum_exp")) << c.name();
}

/// Beside what was seen before, or with nothing before it.
void expect_part(const AttentionPartCase& c, int query_rank, int key_rank, bool first) {
  SCOPED_TRACE(c.name());
  auto test = c.forward(c.whole.inputs(1), query_rank, key_rank, first);
  if (!first) {
    test.inputs.tensors["out"] = random_normal(DType::kF32, c.rows() * c.whole.out_columns(), 2);
    test.inputs.tensors["log_sum_exp"] = random_normal(DType::kF32, c.whole.heads * c.rows(), 3);
  }
  const Values truth = reference::evaluate<double>(test.op, test.inputs);
  const Values found = cuda::run_hopper(test);
  expect_near_all("out", found.at("out"), truth.at("out"), 1e-2);
  std::vector<double> statistics = found.at("log_sum_exp");
  std::vector<double> expected = truth.at("log_sum_exp");
  for (size_t i = 0; i < statistics.size(); ++i) {
    if (std::isinf(expected[i]) && statistics[i] == expected[i]) statistics[i] = expected[i] = 0;
  }
  expect_near_all("log_sum_exp", statistics, expected, 1e-2);
}

TEST(EmulatedAttentionForward, WholeDocumentsAndRowsOfNone) {
  expect_whole({.heads = 2, .dim = 64, .lengths = {140, 20}, .tail_rows = 3, .dtype = DType::kBF16});
  expect_whole({.heads = 2, .dim = 96, .lengths = {140, 20}, .tail_rows = 3, .dtype = DType::kBF16});
  expect_whole({.dim = 128, .window = 40, .lengths = {150}, .dtype = DType::kBF16});
  expect_whole({.dim = 256, .window = 40, .lengths = {150}, .tail_rows = 2, .dtype = DType::kBF16});
}

TEST(EmulatedAttentionForward, TilesOfQueriesFollowEachOtherInABlock) {
  expect_whole({.heads = 3, .kv_heads = 1, .dim = 64, .lengths = {400, 193, 70}, .dtype = DType::kBF16});
  expect_whole({.heads = 3, .kv_heads = 1, .dim = 96, .lengths = {400, 193, 70}, .dtype = DType::kBF16});
  for (const int dim : {128, 256}) {
    expect_whole({.heads = 2, .dim = dim, .lengths = {300, 129, 1, 64}, .dtype = DType::kBF16});
  }
}

// Each with one tile of keys: whoever copies values is done with the next work before warpgroups are with this one.
TEST(EmulatedAttentionForward, ShortDocumentsFollowEachOtherInABlock) {
  for (const int dim : {64, 96, 128, 256}) {
    expect_whole({.heads = 2, .dim = dim, .lengths = {80, 5, 64, 80, 33, 1, 79, 80, 17}, .dtype = DType::kBF16});
    expect_whole({.dim = dim, .window = 8, .lengths = {64, 64, 64, 64}, .dtype = DType::kBF16});
  }
}

TEST(EmulatedAttentionForward, WarpgroupsSkipKeysThatNoneOfTheirQueriesSees) {
  for (const int dim : {64, 96}) {
    expect_whole({.dim = dim, .lengths = {700}, .dtype = DType::kBF16});
    expect_whole({.dim = dim, .window = 90, .lengths = {520, 10}, .dtype = DType::kBF16});
  }
  expect_whole({.dim = 256, .window = 70, .lengths = {400}, .dtype = DType::kBF16});
}

TEST(EmulatedAttentionForward, MaximaThatGrowRescaleEarlierSums) {
  for (const int dim : {64, 96}) expect_whole({.dim = dim, .lengths = {600}, .dtype = DType::kBF16, .magnitude = 6});
  for (const int dim : {128, 256}) {
    expect_whole({.dim = dim, .lengths = {400}, .dtype = DType::kBF16, .magnitude = 6});
  }
}

// What belongs to heads that are off is NaN: nobody reads what lies beside a head's own columns.
TEST(EmulatedAttentionForward, HeadsThatAreOffGetNoTilesAndAreNotRead) {
  for (const int dim : {64, 96, 256}) {
    const AttentionCase c{.heads = 4,
                          .kv_heads = 4,
                          .dim = dim,
                          .lengths = {90, 60},
                          .tail_rows = 2,
                          .dtype = DType::kBF16,
                          .off_heads = {0, 2}};
    auto test = c.forward(1);
    const Values truth = reference::evaluate<double>(test.op, test.inputs);
    spoil_off_heads(c, test);
    std::vector<double> out = cuda::run_hopper(test).at("out");
    cuda::clear_off_heads(c, c.out_columns(), out);
    expect_near_all(c.name(), out, truth.at("out"), 1e-2);
  }
}

TEST(EmulatedAttentionForward, LeavesTheLargestMagnitudeOfItsOutput) {
  for (const int dim : {64, 96, 128, 256}) {
    auto test =
        AttentionCase{.heads = 2, .dim = dim, .lengths = {70}, .tail_rows = 3, .dtype = DType::kBF16}.forward(1);
    test.op.abs_max = shape_only(DType::kF32, {1});
    test.inputs.tensors["abs_max"] = {0};
    const Values found = cuda::run_hopper(test);
    double largest = 0;
    for (const double value : found.at("out")) largest = std::max(largest, std::abs(value));
    EXPECT_EQ(found.at("abs_max")[0], largest);
  }
}

TEST(EmulatedAttentionForward, RotatesQueriesAndKeysOnLoad) {
  for (const int dim : {64, 128}) {
    for (const DType angles : {DType::kF32, DType::kBF16, DType::kF16}) {
      expect_rotated(
          {.heads = 2, .dim = dim, .lengths = {140, 20}, .tail_rows = 3, .dtype = DType::kBF16, .angles = angles});
    }
  }
}

TEST(EmulatedAttentionForward, RotatesTilesThatFollowEachOtherInABlock) {
  for (const int dim : {64, 128}) {
    for (const AttentionCase& c :
         {AttentionCase{.heads = 3, .kv_heads = 1, .lengths = {300, 129, 1, 64}},
          AttentionCase{.window = 70, .lengths = {400, 9}, .tail_rows = 130},
          AttentionCase{.heads = 4, .kv_heads = 2, .lengths = {80, 5, 64, 33, 1, 17}},
          AttentionCase{.window = 8, .lengths = {64, 64, 64, 64}},
          AttentionCase{.heads = 4, .kv_heads = 2, .lengths = {150, 60}, .off_heads = {0, 3}}}) {
      AttentionCase rotated = c;
      rotated.dim = dim;
      rotated.dtype = DType::kBF16;
      rotated.angles = DType::kBF16;
      expect_rotated(rotated);
    }
  }
}

TEST(EmulatedAttentionForward, RotatesNoHeadsOfOtherSizes) {
  for (const int dim : {96, 256}) {
    const AttentionCase c{.dim = dim, .lengths = {20}, .dtype = DType::kBF16, .angles = DType::kF32};
    EXPECT_THROW(cuda::run_hopper(c.forward(1)), InternalError);
  }
}

TEST(EmulatedAttentionForward, APartOfKeysInBothChunksOffEveryTile) {
  for (const int dim : {64, 96}) {
    expect_part({{.dim = dim, .lengths = {600}, .dtype = DType::kBF16}, 2}, 0, 1, false);
  }
  expect_part({{.dim = 256, .lengths = {412}, .dtype = DType::kBF16}, 2}, 0, 1, false);
}

TEST(EmulatedAttentionForward, AFirstPartOfPackedDocuments) {
  for (const int dim : {64, 96, 256}) {
    expect_part({{.heads = 2, .dim = dim, .lengths = {1, 140, 50}, .tail_rows = 9, .dtype = DType::kBF16}, 2}, 1, 1,
                true);
  }
}

TEST(EmulatedAttentionForward, APartInWhichAWindowHidesMostKeys) {
  for (const int dim : {64, 96, 128, 256}) {
    for (const bool first : {false, true}) {
      expect_part({{.dim = dim, .window = 60, .lengths = {250, 30}, .dtype = DType::kBF16}, 2}, 1, 0, first);
    }
  }
}

}  // namespace
}  // namespace litespark::test
