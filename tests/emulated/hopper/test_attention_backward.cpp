// SPDX-License-Identifier: Apache-2.0
// The Hopper attention backward's own source on the CPU, over emulated copies, barriers and tensor cores: whole, and in
// the parts that context ranks share. Finds wrong layouts, masks, phases and turns, stages handed back too early, and
// deadlocks.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "attention_ops.h"
#include "ops/attention_part_cases.h"

namespace litespark::test {
namespace {

void expect_whole(AttentionCase c, bool ordered = true) {
  c.dtype = DType::kBF16;
  auto test = c.backward(1);
  const Values truth = reference::evaluate<double>(test.op, test.inputs);
  spoil_off_heads(c, test);  // nobody reads what lies beside a head's own columns
  std::vector<double> found = cuda::run_hopper(test, ordered).at("dqkv");
  cuda::clear_off_heads(c, c.qkv_columns(), found);
  expect_near_all(c.name(), found, truth.at("dqkv"), 1e-2);
}

TEST(EmulatedAttentionBackward, OneTile) {
  for (const int dim : {64, 96, 128}) expect_whole({.dim = dim, .lengths = {128}});
}

TEST(EmulatedAttentionBackward, SeveralTilesOfGroupedHeads) {
  for (const int dim : {64, 96, 128}) expect_whole({.heads = 2, .kv_heads = 1, .dim = dim, .lengths = {300}});
}

TEST(EmulatedAttentionBackward, EqualDocumentsOfWholeTiles) {
  for (const int dim : {64, 96, 128}) expect_whole({.dim = dim, .lengths = {256, 256}});
}

TEST(EmulatedAttentionBackward, DocumentsThatShareTilesAndRowsOfNone) {
  for (const int dim : {64, 96, 128}) expect_whole({.dim = dim, .lengths = {1, 130, 65}, .tail_rows = 140});
}

TEST(EmulatedAttentionBackward, AWindow) {
  for (const int dim : {64, 96, 128}) expect_whole({.dim = dim, .window = 70, .lengths = {330}, .tail_rows = 2});
}

TEST(EmulatedAttentionBackward, HeadsThatAreOffGetNoBlock) {
  for (const bool ordered : {true, false}) {
    expect_whole({.heads = 6, .kv_heads = 3, .dim = 64, .lengths = {150}, .off_heads = {0, 1, 5}}, ordered);
  }
  for (const int dim : {96, 128}) {
    expect_whole({.heads = 3, .kv_heads = 1, .dim = dim, .lengths = {130}, .tail_rows = 2, .off_heads = {0, 2}});
  }
}

TEST(EmulatedAttentionBackward, FreeOrder) {
  for (const int dim : {64, 96, 128}) expect_whole({.dim = dim, .lengths = {200, 100}}, false);
}

/// By angles of each dtype, rounded once: nearer to the truth than a rotation behind the rounding.
void expect_rotated(AttentionCase c) {
  c.dtype = DType::kBF16;
  for (const DType angles : {DType::kF32, DType::kBF16, DType::kF16}) {
    c.angles = angles;
    expect_whole(c);
  }
}

TEST(EmulatedAttentionBackward, GradientsAreRotatedBackByTheirPositions) {
  for (const int dim : {64, 96, 128}) {
    expect_rotated({.heads = 2, .kv_heads = 1, .dim = dim, .lengths = {300}});
    expect_rotated({.dim = dim, .window = 70, .lengths = {1, 130, 65}, .tail_rows = 140});
  }
  expect_rotated({.heads = 3, .kv_heads = 1, .dim = 96, .lengths = {130}, .tail_rows = 2, .off_heads = {0, 2}});
}

TEST(EmulatedAttentionBackward, RotatedGradientsAreThoseOfTheRotationByItselfButForTheRounding) {
  for (const int dim : {64, 96, 128}) {
    AttentionCase c{.heads = 2, .kv_heads = 1, .dim = dim, .lengths = {150, 60}, .tail_rows = 9, .dtype = DType::kBF16};
    c.angles = DType::kF32;
    const auto test = c.backward(3);
    auto plain = test;
    plain.op.table = plain.op.positions = {};
    Values rotated = test.inputs;
    rotated.tensors["qkv"] = cuda::run_hopper(plain).at("dqkv");
    const Values expected = reference::evaluate<double>(op::rotation_of(test.op, test.op.dqkv, true), rotated);
    expect_near_all(c.name(), cuda::run_hopper(test).at("dqkv"), expected.at("qkv"), 1e-2);
  }
}

TEST(EmulatedAttentionBackward, LeavesTheLargestMagnitudeOfAllGradients) {
  for (const int dim : {64, 96, 128}) {
    for (const bool rotates : {false, true}) {
      AttentionCase c{.heads = 2, .kv_heads = 1, .dim = dim, .lengths = {150, 60}, .tail_rows = 9};
      c.dtype = DType::kBF16;
      if (rotates) c.angles = DType::kF32;
      auto test = c.backward(4);
      for (const char* const larger : {"qkv", "dout"}) {  // the largest is of queries or keys, or of values
        for (double& value : test.inputs.tensors[larger]) value *= 4;
        test.op.abs_max = shape_only(DType::kF32, {1});
        test.inputs.tensors["abs_max"] = {0};
        const Values found = cuda::run_hopper(test);
        double largest = 0;
        for (const double value : found.at("dqkv")) largest = std::max(largest, std::abs(value));
        EXPECT_EQ(found.at("abs_max")[0], largest) << c.name();
        test.inputs.tensors["abs_max"] = {2 * largest};
        EXPECT_EQ(cuda::run_hopper(test).at("abs_max")[0], 2 * largest);
      }
    }
  }
}

/// Beside what earlier parts left, and with nothing before it; in fixed and in free order, which in blocks that run one
/// after another are the same.
void expect_part(AttentionPartCase c, int query_rank, int key_rank) {
  c.whole.dtype = DType::kBF16;
  const Values inputs = c.whole.backward(1).inputs;
  for (const bool first : {false, true}) {
    auto test = c.backward(inputs, query_rank, key_rank, first);
    SCOPED_TRACE(test.name);
    if (!first) test.inputs.tensors["dqueries"] = random_normal(DType::kF32, c.rows() * c.whole.out_columns(), 5);
    const Values expected = reference::evaluate<double>(test.op, test.inputs);
    const Values found = cuda::run_hopper(test, true);
    const Values unordered = cuda::run_hopper(test, false);
    for (const char* name : {"dqueries", "dkeys_values"}) {
      expect_near_all(name, found.at(name), expected.at(name), 1e-2);
      EXPECT_EQ(found.at(name), unordered.at(name)) << name;
    }
  }
}

TEST(EmulatedAttentionBackward, APartOfOwnKeysInBothChunksOffEveryTile) {
  for (const int dim : {64, 96, 128}) expect_part({{.heads = 2, .kv_heads = 1, .dim = dim, .lengths = {404}}, 2}, 1, 1);
}

TEST(EmulatedAttentionBackward, APartOfKeysThatAllQueriesFollow) {
  for (const int dim : {64, 96, 128}) expect_part({{.dim = dim, .lengths = {600}}, 2}, 1, 0);
}

TEST(EmulatedAttentionBackward, APartOfKeysThatHalfTheQueriesFollow) {
  for (const int dim : {64, 96, 128}) expect_part({{.heads = 2, .kv_heads = 1, .dim = dim, .lengths = {396}}, 2}, 0, 1);
}

TEST(EmulatedAttentionBackward, PartsOfPackedDocumentsAndRowsOfNone) {
  for (const int dim : {64, 96}) {
    const AttentionCase packed{.dim = dim, .lengths = {1, 130, 45, 1, 200}, .tail_rows = 23, .spare_documents = 2};
    for (const int query_rank : {0, 1}) {
      for (const int key_rank : {0, 1}) expect_part({packed, 2}, query_rank, key_rank);
    }
  }
  expect_part({{.dim = 128, .lengths = {150}, .tail_rows = 250}, 2}, 0, 1);
  expect_part({{.dim = 128, .lengths = {150}, .tail_rows = 250}, 2}, 0, 0);
}

TEST(EmulatedAttentionBackward, PartsInWhichAWindowHidesMostKeys) {
  for (const int dim : {64, 96, 128}) {
    expect_part({{.dim = dim, .window = 60, .lengths = {530, 70}}, 2}, 1, 0);
    expect_part({{.dim = dim, .window = 140, .lengths = {600}}, 2}, 1, 1);
  }
  expect_part({{.dim = 64, .window = 60, .lengths = {600}}, 3}, 2, 1);
  expect_part({{.dim = 64, .window = 60, .lengths = {600}}, 3}, 1, 2);
}

TEST(EmulatedAttentionBackward, APartInWhichNothingIsSeenLeavesGradientsOfQueriesAlone) {
  for (const int dim : {64, 96, 128}) {
    const AttentionPartCase c{
        {.heads = 2, .kv_heads = 2, .dim = dim, .lengths = {70, 70, 70, 70}, .dtype = DType::kBF16}, 2};
    auto test = c.backward(c.whole.backward(2).inputs, 0, 1, false);
    test.inputs.tensors["dqueries"] = random_normal(DType::kF32, c.rows() * c.whole.out_columns(), 5);
    const Values found = cuda::run_hopper(test);
    EXPECT_EQ(found.at("dqueries"), test.inputs.at("dqueries"));
    const auto is_zero = [](double value) { return value == 0; };
    EXPECT_TRUE(std::ranges::all_of(found.at("dkeys_values"), is_zero));
    test.op.first = true;
    EXPECT_TRUE(std::ranges::all_of(cuda::run_hopper(test).at("dqueries"), is_zero));
  }
}

TEST(EmulatedAttentionBackward, AllPartsMakeUpWholeAttention) {
  const auto run = [](const auto& test) { return cuda::run_hopper(test); };
  expect_whole_attention(
      {{.heads = 2, .kv_heads = 1, .dim = 64, .lengths = {150, 9, 101}, .tail_rows = 40, .dtype = DType::kBF16}, 2},
      run);
  for (const int dim : {96, 128}) {
    expect_whole_attention({{.dim = dim, .window = 90, .lengths = {200, 34}, .dtype = DType::kBF16}, 3}, run);
  }
}

}  // namespace
}  // namespace litespark::test
