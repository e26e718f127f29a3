// SPDX-License-Identifier: Apache-2.0
// Packed weights: sizes that depend on the features alone, one copy for any number of rows, refusal of too small ones.
#include "core/bf16_rounding.h"
#include "ops/cpu/matmul_library.h"
#include "ops/matmul_cases.h"

namespace litespark::test {
namespace {

/// What PackWeight makes of a weight, or of its halves.
std::vector<std::byte> packed_bytes(Backend& backend, OpCase<op::PackWeight<Tensor>> test) {
  return execute(backend, test).bytes.at("packed");
}

TEST(MatmulLibrary, PacksTheHalvesOfAMasterAsTheMasterItself) {
  for (const CpuIsa isa : usable_isas()) {
    Backend& backend = cpu_backend(isa, 2);
    for (const op::PackForm form : {op::PackForm::kForward, op::PackForm::kBackward}) {
      const LinearCase c{.inputs = 37, .outputs = 70, .dtype = DType::kBF16, .packed = true};
      const Shape shape{c.outputs, c.inputs};
      OpCase<op::PackWeight<Tensor>> test{
          .name = c.name(),
          .op = {.packed = shape_only(DType::kU8, {backend.sizes().packed_bytes(c.shape(), form)}),
                 .weight = shape_only(DType::kF32, shape),
                 .remainder = {},
                 .scratch = {},
                 .form = form,
                 .compute_bf16 = true},
          .inputs = {.tensors = {{"weight", master_weight(c, 9)}}, .state = {}}};
      const std::vector<std::byte> expected = packed_bytes(backend, test);
      test.op.weight = shape_only(DType::kBF16, shape);
      test.op.remainder = shape_only(DType::kU16, shape);
      test.op.scratch = shape_only(DType::kF32, shape);
      std::vector<double>& remainder = test.inputs.tensors["remainder"];
      for (double& value : test.inputs.tensors["weight"]) {
        const SplitFloat split = split_float(static_cast<float>(value));
        value = static_cast<double>(to_float(split.weight));
        remainder.push_back(static_cast<double>(split.remainder));
      }
      EXPECT_EQ(packed_bytes(backend, test), expected) << backend.name();
    }
  }
}

TEST(MatmulLibrary, PackedSizesDoNotDependOnTheRows) {
  const cpu::MatmulLibrary library(2, detect_cpu_isa());
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const op::PackForm form : {op::PackForm::kForward, op::PackForm::kBackward}) {
      LinearShape shape{.rows = 1, .in_features = 97, .out_features = 33, .compute = dtype};
      const int64_t one_row = library.packed_bytes(shape, form);
      shape.rows = 5000;
      EXPECT_EQ(library.packed_bytes(shape, form), one_row);
      EXPECT_GE(one_row, 97 * 33 * (library.native_bf16() ? dtype_bytes(dtype) : 4));
    }
  }
}

TEST(MatmulLibrary, OnePackedCopyServesAnyNumberOfRows) {
  Backend& backend = cpu_backend(CpuIsa::kAvx512Bf16, 2);
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    LinearCase c{.rows = 1, .inputs = 65, .outputs = 40, .dtype = dtype, .packed = true};
    const std::vector<double> packed = pack(backend, c, op::PackForm::kForward, master_weight(c, 1));
    for (const int64_t rows : {1, 3, 200, 600}) {
      c.rows = rows;
      auto test = forward_case(backend, c, 1);
      EXPECT_EQ(test.inputs.at("packed"), packed);
      expect_kernel_rule(test.name, execute(backend, test), reference::evaluate<double>(test.op, test.inputs),
                         reference::evaluate<float>(test.op, test.inputs));
    }
  }
}

TEST(MatmulLibrary, Bf16CopiesHoldRoundedWeights) {
  // Without bf16 instructions the copy is f32; it must still hold no more than bf16 can.
  const cpu::MatmulLibrary library(1, CpuIsa::kAvx2);
  ASSERT_FALSE(library.native_bf16());
  EXPECT_TRUE(library.packs_weights(DType::kBF16));
  Backend& backend = cpu_backend(CpuIsa::kAvx2, 1);
  const LinearCase c{.inputs = 8, .outputs = 7, .dtype = DType::kBF16, .packed = true};
  const std::vector<double> bytes = pack(backend, c, op::PackForm::kBackward, master_weight(c, 2));
  for (size_t i = 0; i + 4 <= bytes.size(); i += 4) {
    EXPECT_EQ(bytes[i], 0.0);
    EXPECT_EQ(bytes[i + 1], 0.0);
  }
}

TEST(MatmulLibrary, ATooSmallCopyIsRefused) {
  Backend& backend = cpu_backend(CpuIsa::kAvx512Bf16, 1);
  OpCase<op::PackWeight<Tensor>> test{
      .name = "small",
      .op = {.packed = shape_only(DType::kU8, {16}), .weight = shape_only(DType::kF32, {8, 8})},
      .inputs = {}};
  fill_at_random(test, 3);
  EXPECT_THROW(execute(backend, test), InternalError);
}

TEST(MatmulLibrary, SizesAreExact) {
  const cpu::MatmulLibrary library(1, CpuIsa::kAvx2);
  EXPECT_TRUE(library.exact());
}

}  // namespace
}  // namespace litespark::test
