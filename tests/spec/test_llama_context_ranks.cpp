// SPDX-License-Identifier: Apache-2.0
// The tapes of ranks that share the rows of a micro-batch: who computes which rows, what travels round the ring and
// beside what.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "spec/program.h"
#include "support/plain_sizes.h"
#include "support/tape_reader.h"

namespace litespark {
namespace {

using test::ops_of;

Program program_of(int64_t ranks, int64_t rank, DType compute = DType::kBF16) {
  ProgramOptions options = test::small_options();
  options.compute = compute;
  if (ranks == 3) options.batch.num_tokens = 48;
  options.context_ranks = options.data_ranks = ranks;
  options.data_rank = rank;
  return make_llama_program(test::small_config(), options, PlainSizes());
}

TEST(LlamaContextRanks, EveryRowOfABlockIsOneOfTheRanksOwn) {
  const Program program = program_of(4, 1);
  const Tape& tape = *program.tape(Phase::kTrainFirst);
  for (const auto& norm : ops_of<op::RmsNormForward>(tape)) EXPECT_EQ(program.tensors[norm.y].shape[0], 16);
  for (const auto& product : ops_of<op::MatmulForward>(tape)) EXPECT_EQ(program.tensors[product.x].shape[0], 16);
  for (const TensorId of_row : {program.batch.ids, program.batch.labels, program.batch.positions}) {
    EXPECT_EQ(program.tensors[of_row].shape.num_elements(), 16);
  }
  EXPECT_EQ(program.tensors[program.batch.offsets].shape.num_elements(), 5);
  EXPECT_TRUE(ops_of<op::AttentionForward>(tape).empty());
  EXPECT_TRUE(ops_of<op::AttentionBackward>(tape).empty());
}

// In each step come the keys of one rank further back, so every rank's queries meet every rank's keys once.
TEST(LlamaContextRanks, QueriesMeetAllKeysFromTheRanksOwnOn) {
  for (int rank = 0; rank < 4; ++rank) {
    const Program program = program_of(4, rank);
    const auto parts = ops_of<op::AttentionPartForward>(*program.tape(Phase::kTrainFirst));
    const auto gradients = ops_of<op::AttentionPartBackward>(*program.tape(Phase::kTrainFirst));
    ASSERT_EQ(parts.size(), 3U * 4U);
    ASSERT_EQ(gradients.size(), 3U * 4U);
    for (size_t i = 0; i < parts.size(); ++i) {
      const int step = static_cast<int>(i % 4);
      EXPECT_EQ(parts[i].part.query_rank, rank);
      EXPECT_EQ(parts[i].part.key_rank, (rank - step + 4) % 4);
      EXPECT_EQ(parts[i].first, step == 0);
      EXPECT_EQ(gradients[i].part.key_rank, (rank - step + 4) % 4);
      EXPECT_EQ(gradients[i].first, step == 0);
    }
  }
}

/// The ops of a layer and scope, a letter each: t(aken columns), p(assed on), a(ttention), w(ait), s(um), j(oined
/// columns), c(onversion).
std::string order_of(const Program& program, int32_t layer, std::string_view scope) {
  std::string order;
  for (const std::string& name : test::names_of(*program.tape(Phase::kTrainFirst), scope, layer)) {
    if (name == "take_columns") order += 't';
    if (name == "pass_on") order += 'p';
    if (name == "attention_part_forward" || name == "attention_part_backward") order += 'a';
    if (name == "comm_wait") order += 'w';
    if (name == "add") order += 's';
    if (name == "join_columns") order += 'j';
    if (name == "convert") order += 'c';
  }
  return order;
}

// A part stands between each hop's start and its wait; gradients leave behind a part and are waited for behind the
// next.
TEST(LlamaContextRanks, HopsRunBesideTheAttentionToWhatIsInHand) {
  EXPECT_EQ(order_of(program_of(2, 0), 1, "forward.attention"), "tpawac");
  EXPECT_EQ(order_of(program_of(2, 0, DType::kF32), 1, "forward.attention"), "tpawa");
  EXPECT_EQ(order_of(program_of(3, 0, DType::kF32), 1, "forward.attention"), "tpawpawa");
  EXPECT_EQ(order_of(program_of(2, 1), 1, "backward.attention"), "tpapwawspwj");
  EXPECT_EQ(order_of(program_of(3, 1), 1, "backward.attention"), "tpapwpawspwawspwj");
}

// The last hop brings gradients home beside the weight gradient of the output's product.
TEST(LlamaContextRanks, TheWayHomeIsBesideAWeightGradient) {
  const Program program = program_of(2, 0);
  std::vector<std::string> names = test::names_of(*program.tape(Phase::kTrainFirst), "backward.", 1);
  const auto join = std::find(names.begin(), names.end(), "join_columns");
  ASSERT_NE(join, names.end());
  const std::vector<std::string> before(join - 4, join);
  EXPECT_EQ(before, (std::vector<std::string>{"add", "pass_on", "matmul_backward_weight", "comm_wait"}));
}

// docs/context-parallel.md: bytes that a rank sends a layer.
TEST(LlamaContextRanks, WhatTravelsIsWhatThePageSays) {
  for (const int64_t ranks : {2, 4}) {
    const Program program = program_of(ranks, 0);
    const int64_t kv = 64 / ranks * 2 * 2 * 8;  // numbers of a rank's keys and values
    int64_t forward = 0, backward = 0;
    for (const TapeEntry& entry : program.tape(Phase::kTrainFirst)->entries()) {
      const auto* hop = std::get_if<op::PassOn<TensorId>>(&entry.op);
      if (hop == nullptr || entry.layer != 2) continue;
      EXPECT_EQ(program.tensors[hop->received].owner, Owner::kCommunication);
      EXPECT_EQ(program.tensors[hop->sent].owner, Owner::kCommunication);
      (entry.scope == "forward.attention" ? forward : backward) += program.tensors[hop->sent].bytes();
    }
    EXPECT_EQ(forward, (ranks - 1) * 2 * kv);
    EXPECT_EQ(backward, (ranks - 1) * 2 * kv + ranks * 4 * kv);
  }
}

TEST(LlamaContextRanks, GradientsAreReducedAmongAllWhoHaveTheWeights) {
  ProgramOptions options = test::small_options();
  options.context_ranks = 2;
  options.data_ranks = 6;
  options.tensor_ranks = 2;
  for (int64_t rank = 0; rank < options.world_ranks(); ++rank) {
    options.take_place(rank);
    EXPECT_EQ(options.world_rank(), rank);
    EXPECT_EQ(options.tensor_rank, rank % 2);
    EXPECT_EQ(options.context_rank(), rank / 2 % 2);
    EXPECT_EQ(options.replica(), rank / 4);
  }
  EXPECT_EQ(options.replicas(), 3);
  EXPECT_EQ(options.rank_tokens(), 32);
  const Program program = make_llama_program(test::small_config(), options, PlainSizes());
  for (const auto& reduction : ops_of<op::ReduceScatter>(*program.tape(Phase::kTrainFirst))) {
    if (reduction.group == op::CommGroup::kTensor) continue;
    EXPECT_EQ(reduction.group, op::CommGroup::kData);
    EXPECT_EQ(reduction.ranks, 6);
  }
  for (const Bucket& bucket : program.buckets) {
    EXPECT_EQ(program.tensors[bucket.shard.first_moment].shape.num_elements(), bucket.size / 6);
  }
}

// Context ranks are to stages and tensor ranks what replicas are: chunks are together all rows, each of one rank.
TEST(LlamaContextRanks, ChunksOfAllRanksAreAllRows) {
  for (const int64_t ranks : {1, 2, 3, 8}) {
    std::vector<int64_t> chunks;
    for (int64_t rank = 0; rank < ranks; ++rank) {
      EXPECT_EQ(op::context_chunk(ranks, rank, 0) + op::context_chunk(ranks, rank, 1), 2 * ranks - 1);
      for (int half = 0; half < 2; ++half) chunks.push_back(op::context_chunk(ranks, rank, half));
    }
    std::sort(chunks.begin(), chunks.end());
    for (int64_t chunk = 0; chunk < 2 * ranks; ++chunk) EXPECT_EQ(chunks[static_cast<size_t>(chunk)], chunk);
  }
}

}  // namespace
}  // namespace litespark
