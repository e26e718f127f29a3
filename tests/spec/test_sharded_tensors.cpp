// SPDX-License-Identifier: Apache-2.0
// Buckets and pieces: every element of every parameter belongs to exactly one rank, sizes and offsets are the same on
// all, and each format costs what it says.
#include <gtest/gtest.h>

#include <algorithm>

#include "core/checked.h"
#include "spec/sharded_tensors.h"
#include "support/plain_sizes.h"
#include "support/tape_reader.h"

namespace litespark {
namespace {

using test::small_config;
using test::small_options;

struct Layout {
  int64_t ranks = 3;
  bool packs = false;
  bool is_tied = false;
  MasterWeights master = MasterWeights::kF32;
  DType moments = DType::kF32;
  DType gradient = DType::kF32;
  DType compute = DType::kBF16;
  int64_t bucket_elements = 0;
};

Program program_of(const Layout& layout, int64_t rank = 0) {
  ModelConfig config = small_config();
  config.tie_word_embeddings = layout.is_tied;
  config.has_qkv_bias = true;
  // Layers larger than three pieces of one block, so that pieces cut matrices.
  config.hidden_size = 64;
  config.intermediate_size = 100;
  ProgramOptions options = small_options();
  options.compute = layout.compute;
  options.master = layout.master;
  options.moments = layout.moments;
  options.gradient = layout.gradient;
  options.data_ranks = layout.ranks;
  options.bucket_elements = layout.bucket_elements;
  options.data_rank = rank;
  return make_llama_program(config, options, PlainSizes(layout.packs));
}

TEST(ShardedTensors, EveryElementBelongsToExactlyOneRank) {
  for (const int64_t ranks : {2, 3, 4}) {
    for (const bool is_tied : {false, true}) {
      const Layout layout{.ranks = ranks, .is_tied = is_tied, .bucket_elements = is_tied ? 1 : 0};
      const Program first = program_of(layout);
      std::vector<int64_t> covered(first.params.params.size(), 0);
      int64_t cuts = 0;
      for (int64_t rank = 0; rank < ranks; ++rank) {
        const Program program = program_of(layout, rank);
        for (size_t p = 0; p < covered.size(); ++p) {
          const ParamShard& shard = program.shards[p];
          if (shard.count == 0) continue;
          EXPECT_EQ(shard.first, covered[p]);  // ranks own ascending stretches
          if (shard.first > 0) ++cuts;
          covered[p] += shard.count;
        }
      }
      for (size_t p = 0; p < covered.size(); ++p) {
        EXPECT_EQ(covered[p], first.params.params[p].shape.num_elements()) << first.params.params[p].name;
      }
      EXPECT_GT(cuts, 0);
    }
  }
}

TEST(ShardedTensors, APieceOfAParameterIsTheSameStretchOfEveryTensor) {
  for (int64_t rank = 0; rank < 3; ++rank) {
    const Program program = program_of({.master = MasterWeights::kBF16Remainder}, rank);
    for (const Bucket& bucket : program.buckets) {
      const int64_t piece = bucket.size / 3;
      EXPECT_EQ(bucket.size % (3 * kShardAlignment), 0);
      for (size_t i = 0; i < bucket.params.size(); ++i) {
        const auto index = static_cast<size_t>(bucket.params[i]);
        const ParamShard& shard = program.shards[index];
        if (shard.count == 0) continue;
        const int64_t in_piece = bucket.offsets[i] + shard.first - rank * piece;
        for (const auto field : {&ParamTensors::gradient, &ParamTensors::first_moment, &ParamTensors::second_moment,
                                 &ParamTensors::weight, &ParamTensors::remainder, &ParamTensors::master}) {
          const TensorId view = shard.tensors.*field;
          if (!view.has_value()) continue;
          const TensorInfo& info = program.tensors[view];
          EXPECT_EQ(info.shape.num_elements(), shard.count);
          EXPECT_EQ(info.parent, bucket.shard.*field);
          EXPECT_EQ(info.offset_bytes, in_piece * dtype_bytes(info.dtype)) << info.name;
        }
        // The piece of the gradient lies inside the whole one, where the parameter does.
        const auto whole = program.tensors.root(program.param_tensors[index].gradient);
        const auto part = program.tensors.root(shard.tensors.gradient);
        EXPECT_EQ(part.first, whole.first);
        EXPECT_EQ(part.second - whole.second, 4 * shard.first);
      }
    }
  }
}

TEST(ShardedTensors, SizesAndOffsetsAreTheSameOnEveryRank) {
  for (const bool packs : {false, true}) {
    const Program first = program_of({.packs = packs});
    for (int64_t rank = 1; rank < 3; ++rank) {
      const Program program = program_of({.packs = packs}, rank);
      EXPECT_EQ(program.memory->persistent_bytes(), first.memory->persistent_bytes());
      EXPECT_EQ(program.memory->arena_bytes(), first.memory->arena_bytes());
      for (size_t b = 0; b < first.buckets.size(); ++b) {
        EXPECT_EQ(program.tensors.root(program.buckets[b].gradient), first.tensors.root(first.buckets[b].gradient));
        EXPECT_EQ(program.tensors.root(program.buckets[b].shard.first_moment),
                  first.tensors.root(first.buckets[b].shard.first_moment));
      }
    }
  }
}

TEST(ShardedTensors, BucketsFollowBackwardWithNormsAndBiasesLast) {
  const auto names = [](const Program& program) {
    std::vector<std::string> all;
    for (const Bucket& bucket : program.buckets) all.push_back(bucket.name);
    return all;
  };
  EXPECT_EQ(names(program_of({})),
            (std::vector<std::string>{"head", "layers.2", "layers.1", "layers.0", "embedding", "small"}));
  EXPECT_EQ(names(program_of({.is_tied = true})),
            (std::vector<std::string>{"layers.2", "layers.1", "layers.0", "embedding", "small"}));
  EXPECT_TRUE(program_of({.ranks = 1}).buckets.empty());
}

std::vector<std::string> names_in(const Program& program, const Bucket& bucket) {
  std::vector<std::string> names;
  for (const int64_t param : bucket.params) names.push_back(program.params.params[static_cast<size_t>(param)].name);
  return names;
}

TEST(ShardedTensors, ALayerIsCutBetweenMatricesInTheOrderInWhichBackwardFinishesThem) {
  const Program program = program_of({.bucket_elements = 1});
  ASSERT_EQ(program.buckets.size(), 1U + 3 * 4 + 2);
  const std::vector<std::string> matrices = {"down", "gate_up", "output", "qkv"};
  for (size_t b = 0; b < 12; ++b) {
    const Bucket& bucket = program.buckets[1 + b];
    const std::string layer = "layers." + std::to_string(2 - b / 4);
    EXPECT_EQ(bucket.name, layer + "." + std::to_string(b % 4));
    EXPECT_EQ(bucket.layer, static_cast<int64_t>(2 - b / 4));
    EXPECT_EQ(names_in(program, bucket), std::vector<std::string>{layer + "." + matrices[b % 4]});
  }
}

TEST(ShardedTensors, OnlySingleMatricesAreMoreThanTheirShareOfTheModel) {
  ModelConfig config = small_config();
  config.hidden_size = 2048;
  config.intermediate_size = 8192;
  config.num_hidden_layers = 16;
  config.num_attention_heads = 32;
  config.num_key_value_heads = 8;
  config.head_dim = 64;
  config.vocab_size = 32000;
  ProgramOptions options = small_options();
  const auto elements_of = [](const Program& program, const Bucket& bucket) {
    int64_t elements = 0;
    for (const int64_t param : bucket.params) {
      elements += program.params.params[static_cast<size_t>(param)].shape.num_elements();
    }
    return elements;
  };
  for (const int64_t ranks : {2, 8, 512}) {
    options.data_ranks = ranks;
    const Program program = make_llama_program(config, options, PlainSizes());
    int64_t all = 0;
    int64_t padded = 0;
    for (const Bucket& bucket : program.buckets) {
      if (bucket.name != "small") all += elements_of(program, bucket);
      padded += bucket.size;
    }
    int64_t parts = 0;
    for (const Bucket& bucket : program.buckets) {
      if (bucket.layer < 0) continue;
      ++parts;
      const bool is_within = elements_of(program, bucket) <= all / 32;
      const bool is_tiny = bucket.size / ranks <= 17 * kShardAlignment;
      EXPECT_TRUE(bucket.params.size() == 1 || is_within || is_tiny) << ranks << " ranks: " << bucket.name;
    }
    EXPECT_LT(real(padded), 1.08 * real(program.params.num_parameters)) << ranks << " ranks";
    EXPECT_LE(parts, 4 * 16) << ranks << " ranks";
    if (ranks == 2) {
      EXPECT_EQ(parts, 3 * 16);
      EXPECT_EQ(names_in(program, program.buckets[1]), std::vector<std::string>{"layers.15.down"});
      EXPECT_EQ(names_in(program, program.buckets[3]), (std::vector<std::string>{"layers.15.output", "layers.15.qkv"}));
    }
  }
}

/// Bytes an element of a layer's bucket, in all persistent tensors, times the ranks that share it.
int64_t bytes_of_layer(const Layout& layout) {
  const Program program = program_of(layout);
  const Bucket& bucket = *std::find_if(program.buckets.begin(), program.buckets.end(),
                                       [](const Bucket& candidate) { return candidate.layer == 1; });
  int64_t bytes = layout.ranks * dtype_bytes(program.tensors[bucket.gradient].dtype);
  for (const auto field : {&ParamTensors::master, &ParamTensors::weight, &ParamTensors::remainder,
                           &ParamTensors::first_moment, &ParamTensors::second_moment}) {
    const TensorId piece = bucket.shard.*field;
    if (!piece.has_value()) continue;
    const bool is_whole = std::any_of(bucket.gathered.begin(), bucket.gathered.end(),
                                      [&](const Bucket::Gathered& gathered) { return gathered.piece == piece; });
    bytes += (is_whole ? layout.ranks : 1) * dtype_bytes(program.tensors[piece].dtype);
  }
  return bytes;
}

TEST(ShardedTensors, OnlyWhatMatmulsReadIsWholeOnEveryRank) {
  // Gradient and weight whole; master and two moments shared.
  EXPECT_EQ(bytes_of_layer({}), 3 * (4 + 2) + 4 + 8);
  EXPECT_EQ(bytes_of_layer({.moments = DType::kBF16, .gradient = DType::kBF16}), 3 * (2 + 2) + 4 + 4);
  EXPECT_EQ(bytes_of_layer({.master = MasterWeights::kBF16Remainder}), 3 * (4 + 2) + 2 + 8);
  EXPECT_EQ(bytes_of_layer({.master = MasterWeights::kBF16}), 3 * (4 + 2) + 8);
  // Packed or multiplied from f32: the master itself.
  EXPECT_EQ(bytes_of_layer({.packs = true}), 3 * (4 + 4) + 8);
  EXPECT_EQ(bytes_of_layer({.compute = DType::kF32}), 3 * (4 + 4) + 8);
  EXPECT_EQ(bytes_of_layer({.packs = true, .master = MasterWeights::kBF16Remainder}), 3 * (4 + 2 + 2) + 8);
}

TEST(ShardedTensors, OneRankHasTheTensorsThatItAlwaysHad) {
  const Program program = program_of({.ranks = 1});
  for (size_t p = 0; p < program.shards.size(); ++p) {
    EXPECT_EQ(program.shards[p].first, 0);
    EXPECT_EQ(program.shards[p].count, program.params.params[p].shape.num_elements());
    EXPECT_EQ(program.shards[p].tensors.master, program.param_tensors[p].master);
    EXPECT_EQ(program.shards[p].tensors.gradient, program.param_tensors[p].gradient);
  }
  for (const auto& [phase, tape] : program.tapes) {
    EXPECT_TRUE(test::ops_of<op::CommWait>(tape).empty());
    EXPECT_TRUE(test::ops_of<op::PutStepSums>(tape).empty());
  }
}

}  // namespace
}  // namespace litespark
