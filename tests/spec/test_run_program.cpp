// SPDX-License-Identifier: Apache-2.0
// The run file's words become the program's options.
#include <gtest/gtest.h>

#include "spec/run_program.h"

namespace litespark {
namespace {

RunConfig run_of(DataSource source, Packing packing) {
  RunConfig config;
  config.data.source = source;
  config.data.packing = packing;
  config.data.seq_len = 64;
  config.train.micro_batch = 4;
  return config;
}

TEST(RunProgram, RowsOfEqualLengthAreUniform) {
  for (const auto& [source, packing] : {std::pair{DataSource::kSynthetic, Packing::kDocuments},
                                        {DataSource::kText, Packing::kDocuments},
                                        {DataSource::kShards, Packing::kStream}}) {
    const BatchShape shape = training_options(run_of(source, packing)).batch;
    EXPECT_TRUE(shape.uniform);
    EXPECT_EQ(shape.num_tokens, 256);
    EXPECT_EQ(shape.max_documents, 4);
    EXPECT_EQ(shape.max_length, 64);
  }
}

TEST(RunProgram, PackedDocumentsGetRoomForManyShortOnes) {
  const BatchShape shape = training_options(run_of(DataSource::kShards, Packing::kDocuments)).batch;
  EXPECT_FALSE(shape.uniform);
  EXPECT_EQ(shape.max_documents, 32);
}

TEST(RunProgram, SamplesHaveTheirMemoryInThePlan) {
  RunConfig config = run_of(DataSource::kShards, Packing::kStream);
  EXPECT_FALSE(training_options(config).generation);
  config.train.sample_every = 10;
  EXPECT_EQ(training_options(config).generation->capacity, 64);  // data.seq_len
  EXPECT_EQ(training_options(config).generation->prefill_rows, 64);
  config.train.sample_tokens = 24;
  EXPECT_EQ(training_options(config).generation->capacity, 24);
  EXPECT_EQ(training_options(config).generation->prefill_rows, 24);
}

TEST(RunProgram, DataRanksAreWhatTheOtherAxesLeaveOfTheDevices) {
  RunConfig config = run_of(DataSource::kSynthetic, Packing::kDocuments);
  EXPECT_EQ(training_options(config).data_ranks, 1);
  config.cluster.gpus = 8;
  EXPECT_EQ(training_options(config).data_ranks, 8);
  config.cluster.tp = 2;
  EXPECT_EQ(training_options(config).data_ranks, 4);
  EXPECT_EQ(training_options(config).data_rank, 0);
}

TEST(RunProgram, OptionsFollowTheFile) {
  RunConfig config = run_of(DataSource::kSynthetic, Packing::kDocuments);
  config.precision.compute = DType::kBF16;
  config.precision.residual = ResidualPrecision::kF32;
  config.memory.recompute = Recompute::kEveryK;
  config.memory.recompute_every = 3;
  config.train.accumulation = 2;
  config.train.z_loss = 1e-4;
  config.optim.betas = {0.8, 0.7};
  config.optim.eps = 1e-6;
  config.optim.weight_decay = 0.3;
  const ProgramOptions options = training_options(config);
  EXPECT_EQ(options.compute, DType::kBF16);
  EXPECT_EQ(options.residual, DType::kF32);
  EXPECT_EQ(options.recompute, Recompute::kEveryK);
  EXPECT_EQ(options.recompute_every, 3);
  EXPECT_TRUE(options.accumulates);
  EXPECT_TRUE(options.has_training);
  EXPECT_FALSE(options.fp8.has_value());
  config.precision.matmul = MatmulPrecision::kFp8;
  config.precision.fp8_gradient = Fp8Gradient::kE5M2;
  config.precision.fp8_scaling = Fp8Scaling::kRow;
  EXPECT_EQ(training_options(config).fp8->gradient, DType::kE5M2);
  EXPECT_EQ(training_options(config).fp8->scaling, Fp8Scaling::kRow);
  EXPECT_FALSE(training_options(config).fp8->allows_emulation);
  config.precision.matmul = MatmulPrecision::kFp8Emulated;
  EXPECT_TRUE(training_options(config).fp8->allows_emulation);
  EXPECT_FALSE(options.fp8_attention.has_value());
  config.precision.attention = AttentionPrecision::kFp8;
  EXPECT_FALSE(training_options(config).fp8_attention->allows_emulation);
  config.precision.attention = AttentionPrecision::kFp8Emulated;
  EXPECT_TRUE(training_options(config).fp8_attention->allows_emulation);
  EXPECT_EQ(options.z_loss, 1e-4);
  EXPECT_EQ(options.adamw.beta1, 0.8);
  EXPECT_EQ(options.adamw.beta2, 0.7);
  EXPECT_EQ(options.adamw.eps, 1e-6);
  EXPECT_EQ(options.adamw.weight_decay, 0.3);
  config.train.accumulation = 1;
  EXPECT_FALSE(training_options(config).accumulates);
}

TEST(RunProgram, LeavesTheHeadChunkToTheBackendUnlessItIsGiven) {
  RunConfig config = run_of(DataSource::kSynthetic, Packing::kDocuments);
  EXPECT_EQ(training_options(config).head_chunk_rows, 0);
  config.train.head_chunk_rows = 100;
  EXPECT_EQ(training_options(config).head_chunk_rows, 100);
}

TEST(RunProgram, CopiesAreMadeOnUseWhereAStepIsOneMicroBatchUnlessTheRunSaysOtherwise) {
  const auto packs_on_use = [](int64_t accumulation, PackedCopies packed_copies) {
    RunConfig config;
    config.train.accumulation = accumulation;
    config.memory.packed_copies = packed_copies;
    return training_options(config).packs_on_use;
  };
  EXPECT_TRUE(packs_on_use(1, PackedCopies::kAuto));
  EXPECT_FALSE(packs_on_use(2, PackedCopies::kAuto));
  EXPECT_FALSE(packs_on_use(1, PackedCopies::kResident));
  EXPECT_TRUE(packs_on_use(2, PackedCopies::kOnUse));
  RunConfig sampling;
  sampling.train.sample_every = 10;
  EXPECT_FALSE(training_options(sampling).packs_on_use) << "each token would pack every weight";
}

TEST(RunProgram, GradientsOutliveTheMicroBatchOnlyWhereOthersFollow) {
  RunConfig config;
  EXPECT_TRUE(training_options(config).carries_gradients);
  config.train.accumulation = 2;
  EXPECT_FALSE(training_options(config).carries_gradients);
}

}  // namespace
}  // namespace litespark
