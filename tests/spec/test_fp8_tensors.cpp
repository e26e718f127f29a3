// SPDX-License-Identifier: Apache-2.0
// Copies and scales that 8-bit matmuls need: their sizes, how the pack tape makes them, and what is refused.
#include <gtest/gtest.h>

#include <set>

#include "core/error.h"
#include "spec/fp8_tensors.h"
#include "support/error_text.h"
#include "support/plain_sizes.h"
#include "support/tape_reader.h"

namespace litespark {
namespace {

using test::ops_of;
using test::small_config;
using test::small_options;

ProgramOptions fp8_options(Fp8Scaling scaling = Fp8Scaling::kTensor) {
  ProgramOptions options = small_options();
  options.compute = options.residual = DType::kBF16;
  options.fp8 = Fp8Options{.scaling = scaling, .allows_emulation = true};
  return options;
}

Program program_with(const ProgramOptions& options) {
  return make_llama_program(small_config(), options, PlainSizes());
}

TEST(Fp8Tensors, EveryMatrixOfABlockHasBothCopiesAndNothingElseHas) {
  const Program program = program_with(fp8_options());
  for (size_t i = 0; i < program.params.params.size(); ++i) {
    const ParamSpec& spec = program.params.params[i];
    const Fp8Weight& fp8 = program.param_tensors[i].fp8;
    ASSERT_EQ(fp8.copy.has_value(), spec.is_matrix() && spec.layer >= 0) << spec.name;
    if (!fp8.copy.has_value()) continue;
    const TensorInfo& copy = program.tensors[fp8.copy];
    const TensorInfo& transposed = program.tensors[fp8.transposed];
    EXPECT_EQ(copy.shape, spec.shape);
    EXPECT_EQ(transposed.shape, (Shape{spec.shape[1], spec.shape[0]}));
    for (const TensorInfo* info : {&copy, &transposed}) {
      EXPECT_EQ(info->dtype, DType::kE4M3);
      EXPECT_EQ(info->owner, Owner::kPackedCopies);
      EXPECT_EQ(info->storage, Storage::kPersistent);
    }
  }
}

TEST(Fp8Tensors, SlotsAreOneNumberATensorOrOneARowAndColumnAndNeverOverlap) {
  for (const Fp8Scaling scaling : {Fp8Scaling::kTensor, Fp8Scaling::kRow}) {
    const Program program = program_with(fp8_options(scaling));
    std::set<int64_t> taken;
    for (const auto& sites : program.fp8.layers) {
      for (const Fp8Slot& slot : sites) {
        EXPECT_EQ(program.tensors[slot.abs_max].shape.num_elements(), scaling == Fp8Scaling::kRow ? 64 : 1);
        EXPECT_EQ(slot.column_abs_max.has_value(), scaling == Fp8Scaling::kRow);
        for (const TensorId id : {slot.abs_max, slot.column_abs_max}) {
          if (!id.has_value()) continue;
          const auto [root, offset] = program.tensors.root(id);
          EXPECT_EQ(root, program.fp8.abs_max);
          EXPECT_EQ(offset % 16, 0);
          for (int64_t byte = 0; byte < program.tensors[id].bytes(); byte += 4) {
            EXPECT_TRUE(taken.insert(offset + byte).second) << program.tensors[id].name;
          }
        }
      }
    }
    const Fp8Slot& gate_up = program.fp8.layers[1][static_cast<size_t>(Fp8Site::kGateUpGradient)];
    if (scaling == Fp8Scaling::kRow) {
      EXPECT_EQ(program.tensors[gate_up.column_scale].shape, (Shape{96}));
    }
  }
}

/// Clears all magnitudes of weights, then measures each.
void expect_measured(const Program& program, Phase phase) {
  const Tape* const tape = program.tape(phase);
  ASSERT_NE(tape, nullptr);
  EXPECT_EQ(ops_of<op::Clear>(*tape).at(0).x, program.fp8.weight_abs_max);
  EXPECT_FALSE(ops_of<op::Clear>(*tape).at(0).state.has_value());
  EXPECT_EQ(ops_of<op::AbsMax>(*tape).size(), 3u * 4);
}

TEST(Fp8Tensors, WeightsAreMeasuredAfterLoadingAndThenByTheOptimizerThatWritesThem) {
  const Program program = program_with(fp8_options());
  expect_measured(program, Phase::kMeasure);
  EXPECT_TRUE(ops_of<op::AbsMax>(*program.tape(Phase::kPack)).empty());
  const Tape& optimizer = *program.tape(Phase::kOptimizer);
  const auto clears = ops_of<op::Clear>(optimizer);
  ASSERT_EQ(clears.size(), 1u);
  EXPECT_EQ(clears[0].x, program.fp8.weight_abs_max);
  EXPECT_EQ(clears[0].state,
            program.state);  // a skipped step leaves weights and magnitudes alone
  std::set<int32_t> measured;
  for (const auto& adamw : ops_of<op::AdamW>(optimizer)) {
    if (!adamw.abs_max.has_value()) continue;
    EXPECT_TRUE(measured.insert(adamw.abs_max.index).second);
  }
  for (const ParamTensors& tensors : program.param_tensors) {
    if (!tensors.fp8.copy.has_value()) continue;
    EXPECT_EQ(measured.erase(tensors.fp8.slot.abs_max.index), 1u);
  }
  EXPECT_TRUE(measured.empty());
}

TEST(Fp8Tensors, PackingMeasuresWhereScalesAreOfRowsOrRanksUpdatePieces) {
  ProgramOptions options = fp8_options();
  options.data_ranks = 2;
  for (const Program& program : {program_with(fp8_options(Fp8Scaling::kRow)), program_with(options)}) {
    expect_measured(program, Phase::kPack);
    EXPECT_EQ(program.tape(Phase::kMeasure), nullptr);
    for (const auto& adamw : ops_of<op::AdamW>(*program.tape(Phase::kOptimizer))) {
      EXPECT_FALSE(adamw.abs_max.has_value());
    }
  }
}

TEST(Fp8Tensors, PackingQuantisesEveryWeightOfABlock) {
  const Program program = program_with(fp8_options());
  const Tape& pack = *program.tape(Phase::kPack);
  const auto quantised = ops_of<op::QuantizeFp8>(pack);
  ASSERT_EQ(quantised.size(), 3u * 4);
  for (const auto& op : quantised) EXPECT_EQ(op.kind, op::Fp8Kind::kWeight);
  EXPECT_TRUE(
      ops_of<op::QuantizeFp8>(*make_llama_program(small_config(), small_options(), PlainSizes()).tape(Phase::kPack))
          .empty());
}

TEST(Fp8Tensors, OfSeveralRanksWeightsAreGatheredBeforeTheyAreQuantised) {
  ProgramOptions options = fp8_options();
  options.data_ranks = 2;
  const Program program = program_with(options);
  EXPECT_FALSE(ops_of<op::QuantizeFp8>(*program.tape(Phase::kPack)).empty());
  EXPECT_TRUE(ops_of<op::CommWait>(*program.tape(Phase::kPack)).empty());
  // Each bucket's weights, and the step's message; a call is waited for on its own tape.
  EXPECT_EQ(ops_of<op::AllGather>(*program.tape(Phase::kOptimizer)).size(), program.buckets.size() + 1);
  EXPECT_TRUE(ops_of<op::AllGather>(*program.tape(Phase::kTrainFirst)).empty());
}

TEST(Fp8Tensors, AProgramWithoutTrainingHasNone) {
  ProgramOptions options = fp8_options();
  options.has_training = false;
  EXPECT_FALSE(program_with(options).fp8.abs_max.has_value());
}

std::string refusal(const ModelConfig& config, const ProgramOptions& options, const BackendSizes& sizes) {
  return error_text<ConfigError>([&] { make_llama_program(config, options, sizes); });
}

TEST(Fp8Tensors, ShapesThatEightBitMatmulsDoNotTakeAreRefusedByName) {
  ModelConfig config = small_config();
  config.intermediate_size = 50;
  EXPECT_NE(refusal(config, fp8_options(), PlainSizes()).find("model.intermediate_size"), std::string::npos);
  ProgramOptions options = fp8_options();
  options.batch.num_tokens = 60;
  EXPECT_NE(refusal(small_config(), options, PlainSizes()).find("train.micro_batch"), std::string::npos);
  options = fp8_options();
  options.compute = options.residual = DType::kF32;
  EXPECT_NE(refusal(small_config(), options, PlainSizes()).find("precision.compute"), std::string::npos);
}

struct SizesWith final : PlainSizes {
  explicit SizesWith(Fp8Support given) : support(given) {}
  Fp8Support fp8_support() const override { return support; }
  Fp8Support support;
};

TEST(Fp8Tensors, ADeviceWithoutEightBitMatmulsIsRefusedAndAnEmulationMustBeAskedFor) {
  ProgramOptions options = fp8_options();
  EXPECT_NE(refusal(small_config(), options, SizesWith(Fp8Support::kNone)).find("8.9"), std::string::npos);
  EXPECT_NO_THROW(make_llama_program(small_config(), options, SizesWith(Fp8Support::kEmulated)));
  options.fp8->allows_emulation = false;
  EXPECT_NE(refusal(small_config(), options, SizesWith(Fp8Support::kEmulated)).find("a CPU"), std::string::npos);
  EXPECT_NO_THROW(make_llama_program(small_config(), options, SizesWith(Fp8Support::kNative)));
}

}  // namespace
}  // namespace litespark
