// SPDX-License-Identifier: Apache-2.0
// The portable attention kernels' own source on the CPU, over emulated copies and tensor cores: whole attention, and
// the parts that context ranks share, against plain loops in double. Finds wrong rows, masks, layouts and missing
// waits.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "attention_ops.h"
#include "ops/attention_part_cases.h"

namespace litespark::test {
namespace {

/// One part of each direction, of the last rank's queries and the first rank's keys, beside what was there before.
void expect_part(const AttentionPartCase& c, int query_rank, int key_rank) {
  SCOPED_TRACE(c.name());
  const double limit = c.whole.dtype == DType::kBF16 ? 1e-2 : 4e-6;
  auto forward = c.forward(c.whole.inputs(1), query_rank, key_rank, false);
  forward.inputs.tensors["out"] = random_normal(DType::kF32, c.rows() * c.whole.out_columns(), 2);
  forward.inputs.tensors["log_sum_exp"] = random_normal(DType::kF32, c.whole.heads * c.rows(), 3);
  auto backward = c.backward(c.whole.backward(4).inputs, query_rank, key_rank, false);
  backward.inputs.tensors["dqueries"] = random_normal(DType::kF32, c.rows() * c.whole.out_columns(), 5);
  const Values out = reference::evaluate<double>(forward.op, forward.inputs);
  const Values gradient = reference::evaluate<double>(backward.op, backward.inputs);
  const Values found = cuda::run_portable(forward);
  const Values found_gradient = cuda::run_portable(backward);
  for (const char* name : {"out", "log_sum_exp"}) expect_near_all(name, found.at(name), out.at(name), limit);
  for (const char* name : {"dqueries", "dkeys_values"}) {
    expect_near_all(name, found_gradient.at(name), gradient.at(name), limit);
  }
}

TEST(EmulatedPortableAttention, KeysOfEarlierChunksOffEveryTile) {
  expect_part({{.dim = 16, .lengths = {280}, .dtype = DType::kBF16}, 2}, 1, 0);
}

TEST(EmulatedPortableAttention, KeysOfEarlierAndOfLaterChunks) {
  expect_part({{.dim = 16, .lengths = {280}, .dtype = DType::kBF16}, 2}, 0, 1);
}

TEST(EmulatedPortableAttention, OwnKeysOfPackedDocumentsAndRowsOfNone) {
  expect_part(
      {{.heads = 2, .dim = 16, .lengths = {1, 40, 33}, .tail_rows = 6, .spare_documents = 2, .dtype = DType::kBF16}, 2},
      1, 1);
}

TEST(EmulatedPortableAttention, AWindowThatReachesIntoTheChunkBefore) {
  expect_part({{.dim = 16, .window = 30, .lengths = {200, 80}, .dtype = DType::kBF16}, 2}, 1, 0);
}

TEST(EmulatedPortableAttention, DistancesOverChunksWithAlibi) {
  expect_part(
      {{.heads = 2, .kv_heads = 2, .dim = 16, .lengths = {100, 36}, .dtype = DType::kBF16, .has_alibi = true}, 2}, 1,
      0);
}

TEST(EmulatedPortableAttention, PlainKernelsOfParts) {
  expect_part({{.heads = 2, .dim = 6, .window = 50, .lengths = {100, 30}, .tail_rows = 6}, 2}, 1, 0);
  expect_part({{.heads = 2, .kv_heads = 2, .dim = 6, .lengths = {60, 12}, .has_alibi = true}, 3}, 2, 2);
}

TEST(EmulatedPortableAttention, AllPartsMakeUpWholeAttention) {
  const AttentionPartCase c{{.dim = 16, .lengths = {20, 9, 14}, .tail_rows = 5, .dtype = DType::kBF16}, 2};
  expect_whole_attention(c, [](const auto& test) { return cuda::run_portable(test); });
}

TEST(EmulatedPortableAttention, WholeAttention) {
  const AttentionCase c{
      .heads = 2, .dim = 16, .window = 70, .lengths = {100, 30}, .tail_rows = 3, .dtype = DType::kBF16};
  const auto forward = c.forward(1);
  const auto backward = c.backward(2);
  expect_near_all("out", cuda::run_portable(forward).at("out"),
                  reference::evaluate<double>(forward.op, forward.inputs).at("out"), 1e-2);
  expect_near_all("dqkv", cuda::run_portable(backward).at("dqkv"),
                  reference::evaluate<double>(backward.op, backward.inputs).at("dqkv"), 2e-2);
}

TEST(EmulatedPortableAttention, HeadsThatAreOffGetNoBlock) {
  for (const AttentionCase& c :
       {AttentionCase{
            .heads = 4, .kv_heads = 2, .dim = 16, .lengths = {70, 3}, .dtype = DType::kBF16, .off_heads = {1, 2, 3}},
        AttentionCase{.heads = 3, .kv_heads = 3, .dim = 6, .lengths = {20}, .tail_rows = 2, .off_heads = {0, 2}}}) {
    const auto forward = c.forward(1);
    const auto backward = c.backward(2);
    std::vector<double> out = cuda::run_portable(forward).at("out");
    std::vector<double> dqkv = cuda::run_portable(backward).at("dqkv");
    cuda::clear_off_heads(c, c.out_columns(), out);
    cuda::clear_off_heads(c, c.qkv_columns(), dqkv);
    expect_near_all("out", out, reference::evaluate<double>(forward.op, forward.inputs).at("out"), 1e-2);
    expect_near_all("dqkv", dqkv, reference::evaluate<double>(backward.op, backward.inputs).at("dqkv"), 2e-2);
  }
}

TEST(EmulatedPortableAttention, LeavesTheLargestMagnitudeOfItsOutput) {
  for (const auto& [dim, dtype] : {std::pair(16, DType::kBF16), std::pair(6, DType::kF32)}) {
    auto test = AttentionCase{.heads = 2, .dim = dim, .lengths = {70}, .tail_rows = 3, .dtype = dtype}.forward(1);
    test.op.abs_max = shape_only(DType::kF32, {1});
    test.inputs.tensors["abs_max"] = {0};
    const Values found = cuda::run_portable(test);
    double largest = 0;
    for (const double value : found.at("out")) largest = std::max(largest, std::abs(value));
    EXPECT_EQ(found.at("abs_max")[0], largest);
  }
}

}  // namespace
}  // namespace litespark::test
