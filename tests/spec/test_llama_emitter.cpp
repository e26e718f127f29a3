// SPDX-License-Identifier: Apache-2.0
// What the emitter takes from outside: library sizes, packed copies, biases, the attention shape.
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "support/plain_sizes.h"
#include "support/tape_reader.h"

namespace litespark {
namespace {

using test::ops_of;
using test::small_config;
using test::small_options;

/// Every kind of scratch has a size of its own.
class TellingSizes final : public BackendSizes {
 public:
  bool exact() const override { return false; }
  bool packs_weights(DType) const override { return false; }
  int64_t packed_bytes(const LinearShape&, op::PackForm) const override { return 0; }
  int64_t matmul_forward_scratch_bytes(const LinearShape& shape) const override { return 1000 + shape.rows; }
  int64_t matmul_backward_input_scratch_bytes(const LinearShape& shape) const override { return 2000 + shape.rows; }
  int64_t matmul_backward_weight_scratch_bytes(const LinearShape& shape) const override { return 3000 + shape.rows; }
  int64_t attention_forward_scratch_bytes(const op::AttentionShape&, int64_t rows, DType) const override {
    return 4000 + rows;
  }
  int64_t attention_backward_scratch_bytes(const op::AttentionShape&, int64_t rows, DType) const override {
    return 5000 + rows;
  }
};

TEST(LlamaEmitter, GivesEveryOpTheScratchThatItsLibraryAskedFor) {
  const Program program = make_llama_program(small_config(), small_options(), TellingSizes());
  const Tape& tape = *program.tape(Phase::kTrainFirst);
  const auto rows = [&](TensorId id) { return program.tensors[id].shape[0]; };
  for (const auto& op : ops_of<op::MatmulForward>(tape)) EXPECT_EQ(rows(op.scratch), 1000 + rows(op.y));
  for (const auto& op : ops_of<op::MatmulBackwardInput>(tape)) EXPECT_EQ(rows(op.scratch), 2000 + rows(op.dy));
  for (const auto& op : ops_of<op::MatmulBackwardWeight>(tape)) EXPECT_EQ(rows(op.scratch), 3000 + rows(op.dy));
  for (const auto& op : ops_of<op::AttentionForward>(tape)) EXPECT_EQ(rows(op.scratch), 4000 + 64);
  for (const auto& op : ops_of<op::AttentionBackward>(tape)) EXPECT_EQ(rows(op.scratch), 5000 + 64);
  EXPECT_FALSE(program.sizes_are_exact);

  const Program plain = make_llama_program(small_config(), small_options(), PlainSizes());
  for (const auto& op : ops_of<op::MatmulForward>(*plain.tape(Phase::kEval))) EXPECT_FALSE(op.scratch.has_value());
}

TEST(LlamaEmitter, PackedWeightsReplacePlainOnesInMatmuls) {
  ProgramOptions options = small_options();
  options.compute = DType::kBF16;
  const Program program = make_llama_program(small_config(), options, PlainSizes(true));
  const Tape& tape = *program.tape(Phase::kTrainFirst);
  for (const auto& op : ops_of<op::MatmulForward>(tape)) {
    EXPECT_FALSE(op.weight.has_value());
    EXPECT_TRUE(op.packed.has_value());
  }
  for (const auto& op : ops_of<op::MatmulBackwardInput>(tape)) EXPECT_TRUE(op.packed.has_value());
}

TEST(LlamaEmitter, BiasesStandWhereTheConfigHasThem) {
  const auto biased = [](auto change) {
    ModelConfig config = small_config();
    config.num_hidden_layers = 1;
    change(config);
    const Program program = make_llama_program(config, small_options(), PlainSizes());
    std::vector<bool> found;
    for (const auto& op : ops_of<op::MatmulForward>(*program.tape(Phase::kEval))) found.push_back(op.bias.has_value());
    found.resize(4);  // qkv, output, gate_up, down; the head's chunks follow
    return found;
  };
  EXPECT_EQ(biased([](ModelConfig&) {}), (std::vector<bool>{false, false, false, false}));
  EXPECT_EQ(biased([](ModelConfig& c) { c.has_qkv_bias = true; }), (std::vector<bool>{true, false, false, false}));
  EXPECT_EQ(biased([](ModelConfig& c) { c.has_output_bias = true; }), (std::vector<bool>{false, true, false, false}));
  EXPECT_EQ(biased([](ModelConfig& c) { c.has_mlp_bias = true; }), (std::vector<bool>{false, false, true, true}));
}

TEST(LlamaEmitter, AttentionHasTheScaleOfItsHeadAndTheBatchsCapacity) {
  ModelConfig config = small_config();
  config.head_dim = 16;
  config.sliding_window = 1000;
  const Program program = make_llama_program(config, small_options(), PlainSizes());
  for (const auto& op : ops_of<op::AttentionForward>(*program.tape(Phase::kEval))) {
    EXPECT_FLOAT_EQ(op.shape.scale, 0.25F);
    EXPECT_EQ(op.shape.num_heads, 4);
    EXPECT_EQ(op.shape.num_kv_heads, 2);
    EXPECT_EQ(op.shape.max_documents, 4);
    EXPECT_EQ(op.shape.max_length, 32);
    EXPECT_EQ(op.shape.window, 32);  // no document is longer
  }
}

TEST(LlamaEmitter, TensorNamesAreUnlikeInOnePhaseExceptForScratch) {
  ProgramOptions options = small_options();
  options.recompute = Recompute::kBlock;
  const Program program = make_llama_program(small_config(), options, PlainSizes());
  std::map<std::string, int> seen;
  for (int32_t i = 0; i < program.tensors.size(); ++i) {
    const TensorInfo& info = program.tensors[TensorId{i}];
    if (info.owner == Owner::kActivations && !info.parent.has_value()) ++seen[info.name];
  }
  EXPECT_GT(seen.size(), 50U);
  for (const auto& [name, count] : seen) EXPECT_EQ(count, 1) << name;
}

}  // namespace
}  // namespace litespark
