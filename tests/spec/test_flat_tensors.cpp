// SPDX-License-Identifier: Apache-2.0
// What each choice of formats costs a parameter, and that the views of a flat tensor neither overlap nor leave it.
#include <gtest/gtest.h>

#include <map>

#include "spec/flat_tensors.h"
#include "support/plain_sizes.h"
#include "support/tape_reader.h"

namespace litespark {
namespace {

using test::small_config;
using test::small_options;

struct Formats {
  MasterWeights master = MasterWeights::kF32;
  DType moments = DType::kF32;
  DType gradient = DType::kF32;
};

Program program_with(const Formats& formats, bool packs = false) {
  ProgramOptions options = small_options();
  options.compute = DType::kBF16;
  options.master = formats.master;
  options.moments = formats.moments;
  options.gradient = formats.gradient;
  return make_llama_program(small_config(), options, PlainSizes(packs));
}

/// Bytes of one parameter over all tensors that hold it.
int64_t bytes_of(const Program& program, ParamRole role, int64_t layer) {
  const ParamTensors& tensors = program.param_tensors[static_cast<size_t>(*program.params.find(role, layer))];
  int64_t bytes = 0;
  for (const TensorId id : {tensors.master, tensors.weight, tensors.remainder, tensors.gradient, tensors.first_moment,
                            tensors.second_moment}) {
    if (id.has_value()) bytes += dtype_bytes(program.tensors[id].dtype);
  }
  return bytes;
}

TEST(FlatTensors, EachFormatCostsWhatItSays) {
  const auto matrix = [](const Formats& formats) { return bytes_of(program_with(formats), ParamRole::kDown, 1); };
  EXPECT_EQ(matrix({}), 4 + 2 + 4 + 8);
  EXPECT_EQ(matrix({.master = MasterWeights::kBF16Remainder}), 2 + 2 + 4 + 8);
  EXPECT_EQ(matrix({.master = MasterWeights::kBF16}), 2 + 4 + 8);
  EXPECT_EQ(matrix({.moments = DType::kBF16}), 4 + 2 + 4 + 4);
  EXPECT_EQ(matrix({.gradient = DType::kBF16}), 4 + 2 + 2 + 8);
  EXPECT_EQ(matrix({MasterWeights::kBF16, DType::kBF16, DType::kBF16}), 2 + 2 + 4);
}

TEST(FlatTensors, NormsKeepF32MastersAndGradients) {
  const Program program = program_with({MasterWeights::kBF16, DType::kBF16, DType::kBF16});
  EXPECT_EQ(bytes_of(program, ParamRole::kMlpNorm, 0), 4 + 4 + 4);
  EXPECT_EQ(bytes_of(program, ParamRole::kFinalNorm, -1), 4 + 4 + 4);
}

TEST(FlatTensors, GradientsThatAreSumsOfSeveralOpsStayF32) {
  const Program program = program_with({.gradient = DType::kBF16});
  for (const ParamRole role : {ParamRole::kEmbedding, ParamRole::kHead}) {
    const auto index = static_cast<size_t>(*program.params.find(role));
    EXPECT_EQ(program.tensors[program.param_tensors[index].gradient].dtype, DType::kF32);
  }
}

TEST(FlatTensors, NoBf16CopyStandsBesideMastersWhereMatmulsReadPackedOnes) {
  EXPECT_FALSE(program_with({}, true).flat.weight.has_value());
  EXPECT_TRUE(program_with({.master = MasterWeights::kBF16Remainder}, true).flat.weight.has_value());
}

TEST(FlatTensors, ViewsNeitherOverlapNorLeaveTheirParent) {
  const Program program = program_with({MasterWeights::kBF16Remainder, DType::kBF16, DType::kBF16});
  for (TensorId ParamTensors::*view : {&ParamTensors::master, &ParamTensors::weight, &ParamTensors::remainder,
                                       &ParamTensors::gradient, &ParamTensors::first_moment}) {
    std::map<int32_t, int64_t> end_of;  // by root, in flat order
    for (size_t p = program.param_tensors.size(); p-- > 0;) {
      const TensorId id = program.param_tensors[p].*view;
      if (!id.has_value()) continue;
      const auto [root, offset] = program.tensors.root(id);
      EXPECT_GE(offset, end_of[root.index]);
      EXPECT_EQ(offset % (kFlatAlignment * dtype_bytes(program.tensors[id].dtype)), 0);
      end_of[root.index] = offset + program.tensors[id].bytes();
      EXPECT_LE(end_of[root.index], program.tensors[root].bytes());
    }
    EXPECT_FALSE(end_of.empty());
  }
}

TEST(FlatTensors, ThoseOfAllParametersHaveTheTablesOffsets) {
  const Program program = program_with({});
  for (size_t p = 0; p < program.param_tensors.size(); ++p) {
    const ParamTensors& tensors = program.param_tensors[p];
    for (const TensorId id : {tensors.master, tensors.gradient, tensors.first_moment, tensors.second_moment}) {
      EXPECT_EQ(program.tensors.root(id).second, 4 * program.params.params[p].flat_offset);
    }
  }
}

TEST(FlatTensors, Bf16GradientsAreRefusedWhereTheyWouldBeSummed) {
  ProgramOptions options = small_options();
  options.compute = options.gradient = DType::kBF16;
  options.accumulates = true;
  EXPECT_THROW(make_llama_program(small_config(), options, PlainSizes()), ConfigError);
  options.accumulates = false;
  options.compute = DType::kF32;
  EXPECT_THROW(make_llama_program(small_config(), options, PlainSizes()), ConfigError);
}

}  // namespace
}  // namespace litespark
