// SPDX-License-Identifier: Apache-2.0
// The tapes of tensor-parallel ranks: who computes which rows, heads and ids, and what travels between them.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <string_view>
#include <variant>

#include "spec/program.h"
#include "support/plain_sizes.h"
#include "support/tape_reader.h"

namespace litespark {
namespace {

using test::ops_of;

constexpr int64_t kRanks = 2;

Program program_of(int64_t rank, const std::function<void(ModelConfig&, ProgramOptions&)>& change = {}) {
  ModelConfig config = test::small_config();
  ProgramOptions options = test::small_options();
  options.compute = DType::kBF16;
  options.tensor_ranks = kRanks;
  options.tensor_rank = rank;
  options.tensor_stretches = 1;
  if (change) change(config, options);
  return make_llama_program(config, options, PlainSizes());
}

template <template <class> class Op>
int64_t count_in_layer(const Tape& tape, int32_t layer, std::string_view scope, op::CommGroup group) {
  return std::count_if(tape.entries().begin(), tape.entries().end(), [&](const TapeEntry& entry) {
    const auto* op = std::get_if<Op<TensorId>>(&entry.op);
    return op != nullptr && op->group == group && entry.layer == layer && entry.scope.starts_with(scope);
  });
}

TEST(LlamaTensorRanks, NormsTakeARanksRowsAndMatmulsTakeAll) {
  const Program program = program_of(1);
  const Tape& tape = *program.tape(Phase::kTrainFirst);
  for (const auto& norm : ops_of<op::RmsNormForward>(tape)) {
    EXPECT_EQ(program.tensors[norm.y].shape[0], 64 / kRanks);
    if (norm.sum.has_value()) {
      EXPECT_EQ(program.tensors[norm.sum].shape[0], 64 / kRanks);
    }
  }
  for (const auto& norm : ops_of<op::RmsNormBackward>(tape)) {
    EXPECT_EQ(program.tensors[norm.dresidual].shape[0], 64 / kRanks);
  }
  for (const auto& product : ops_of<op::MatmulForward>(tape)) {
    const int64_t rows = program.tensors[product.x].shape[0];
    EXPECT_TRUE(rows == 64 || rows == 24 || rows == 16) << rows;  // the head's chunks
  }
  for (const auto& attention : ops_of<op::AttentionForward>(tape)) {
    EXPECT_EQ(attention.shape.num_heads, 2);
    EXPECT_EQ(attention.shape.num_kv_heads, 1);
  }
}

// docs/tensor-parallel.md: four calls a layer forward, six backward.
TEST(LlamaTensorRanks, ALayerMakesFourCallsForwardAndSixBackward) {
  const Program program = program_of(0);
  const Tape& tape = *program.tape(Phase::kTrainFirst);
  constexpr auto kTensor = op::CommGroup::kTensor;
  for (int32_t layer = 0; layer < 3; ++layer) {
    EXPECT_EQ(count_in_layer<op::AllGather>(tape, layer, "forward.", kTensor), 2);
    EXPECT_EQ(count_in_layer<op::ReduceScatter>(tape, layer, "forward.", kTensor), 2);
    EXPECT_EQ(count_in_layer<op::AllGather>(tape, layer, "backward.", kTensor), 4);
    EXPECT_EQ(count_in_layer<op::ReduceScatter>(tape, layer, "backward.", kTensor), 2);
  }
  const Tape& eval = *program.tape(Phase::kEval);
  EXPECT_EQ(ops_of<op::AllReduce>(eval).size(), 0u);
  EXPECT_EQ(ops_of<op::ReduceScatter>(eval).size(), 3u * 2 + 1);  // and the embedding
}

TEST(LlamaTensorRanks, RowsThatStretchesDoNotDivideTravelWhole) {
  for (const int64_t stretches : {3, 5}) {
    const Program program = program_of(0, [&](ModelConfig&, ProgramOptions& options) {
      options.tensor_stretches = stretches;  // 32 rows a rank
    });
    EXPECT_EQ(count_in_layer<op::AllGather>(*program.tape(Phase::kTrainFirst), 1, "forward.", op::CommGroup::kTensor),
              2);
  }
}

/// The ops of a layer and scope, a letter each: g(ather), r(eduction), w(ait), f(orward), i(nput's gradient), d (the
/// weight's gradient).
std::string order_of(const Program& program, int32_t layer, std::string_view scope) {
  std::string order;
  for (const TapeEntry& entry : program.tape(Phase::kTrainFirst)->entries()) {
    if (entry.layer != layer || entry.scope != scope) continue;
    const std::string_view name = op_name(entry.op);
    if (name == "all_gather") order += 'g';
    if (name == "reduce_scatter") order += 'r';
    if (name == "comm_wait") order += 'w';
    if (name == "matmul_forward") order += 'f';
    if (name == "matmul_backward_input") order += 'i';
    if (name == "matmul_backward_weight") order += 'd';
  }
  return order;
}

// A product of one stretch stands between the call of another and its wait.
TEST(LlamaTensorRanks, ProductsRunBesideTheStretchesThatTravel) {
  const Program program = program_of(0, [](ModelConfig&, ProgramOptions& options) { options.tensor_stretches = 2; });
  EXPECT_EQ(order_of(program, 1, "forward.qkv"), "ggwfwf");
  EXPECT_EQ(order_of(program, 1, "forward.output"), "frfrww");
  EXPECT_EQ(order_of(program, 1, "forward.gate_up"), "ggwfwf");
  EXPECT_EQ(order_of(program, 1, "forward.down"), "frfrww");
  EXPECT_EQ(order_of(program, 1, "backward.down"), "ggwiwid");
  EXPECT_EQ(order_of(program, 1, "backward.gate_up"), "ggirirwwdww");
  EXPECT_EQ(order_of(program, 1, "backward.output"), "ggwiwid");
  EXPECT_EQ(order_of(program, 1, "backward.qkv"), "ggirirwwdww");
}

TEST(LlamaTensorRanks, NoRankEverHoldsWholeLogits) {
  const Program program = program_of(0);
  for (const auto& [phase, tape] : program.tapes) {
    EXPECT_TRUE(ops_of<op::CrossEntropy>(tape).empty());
    for (const auto& part : ops_of<op::CrossEntropyPart>(tape)) {
      EXPECT_EQ(program.tensors[part.logits].shape[1], 50);
      EXPECT_LE(program.tensors[part.logits].shape[0], 24);
    }
  }
  EXPECT_EQ(ops_of<op::CrossEntropyJoined>(*program.tape(Phase::kTrainFirst)).size(), 3u);
}

TEST(LlamaTensorRanks, EachLooksUpItsOwnIds) {
  for (const int64_t rank : {0, 1}) {
    const Program program = program_of(rank);
    const auto lookups = ops_of<op::EmbeddingForward>(*program.tape(Phase::kTrainFirst));
    ASSERT_EQ(lookups.size(), 1u);
    EXPECT_EQ(lookups[0].first_id, 50 * rank);
    EXPECT_EQ(lookups[0].vocab, 100);
    EXPECT_EQ(ops_of<op::EmbeddingBackward>(*program.tape(Phase::kTrainFirst))[0].first_id, 50 * rank);
  }
}

TEST(LlamaTensorRanks, OnlyTheFirstAddsABiasThatFollowsASum) {
  const auto with_biases = [](ModelConfig& config, ProgramOptions&) {
    config.has_output_bias = config.has_qkv_bias = true;
  };
  for (const int64_t rank : {0, 1}) {
    const Program program = program_of(rank, with_biases);
    int biased = 0;
    for (const auto& product : ops_of<op::MatmulForward>(*program.tape(Phase::kEval)))
      biased += product.bias.has_value();
    EXPECT_EQ(biased, rank == 0 ? 6 : 3);
    // Its gradient is a sum over this rank's rows.
    int partial = 0;
    for (const auto& bias : ops_of<op::BiasBackward>(*program.tape(Phase::kTrainFirst))) {
      partial += program.tensors[bias.dy].shape[0] == 64 / kRanks;
    }
    EXPECT_EQ(partial, 3);
  }
}

TEST(LlamaTensorRanks, GradientsOfCopiesAreSummedBehindTheLastMicroBatchAlone) {
  const Program program = program_of(0, [](ModelConfig& config, ProgramOptions& options) {
    config.num_key_value_heads = 1;
    options.accumulates = true;
  });
  EXPECT_TRUE(ops_of<op::AllReduce>(*program.tape(Phase::kTrainFirst)).empty());
  EXPECT_TRUE(ops_of<op::AllReduce>(*program.tape(Phase::kTrainNext)).empty());
  // A layer's keys and values, then all norms in one.
  EXPECT_EQ(ops_of<op::AllReduce>(*program.tape(Phase::kTrainLast)).size(), 3u + 1);
  const Program without = program_of(0);
  EXPECT_EQ(ops_of<op::AllReduce>(*without.tape(Phase::kTrainFirst)).size(), 1u);
}

}  // namespace
}  // namespace litespark
