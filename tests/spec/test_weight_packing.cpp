// SPDX-License-Identifier: Apache-2.0
// Every product reads a copy of its own weight in its own form, whether copies stay or are made on use.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "spec/weight_packing.h"
#include "support/plain_sizes.h"
#include "support/tape_reader.h"

namespace litespark {
namespace {

using test::ops_of;
using test::small_config;
using test::small_options;

Program program_of(bool packs_on_use, Recompute recompute = Recompute::kNone) {
  ProgramOptions options = small_options();
  options.compute = DType::kBF16;
  options.recompute = recompute;
  options.packs_on_use = packs_on_use;
  return make_llama_program(small_config(), options, PlainSizes(true));
}

/// What the copies that a tape may read were packed from, as it goes.
struct Copies {
  std::map<int32_t, op::PackWeight<TensorId>> by_tensor;

  void expect(TensorId packed, op::PackForm form, int64_t in_features, int64_t out_features, const Program& program) {
    const auto found = by_tensor.find(packed.index);
    ASSERT_NE(found, by_tensor.end()) << "read before it was made";
    EXPECT_EQ(found->second.form, form);
    EXPECT_EQ(program.tensors[found->second.weight].shape, (Shape{out_features, in_features}));
  }
};

void expect_products_read_copies(const Program& program, Phase phase, Copies copies) {
  for (const TapeEntry& entry : program.tape(phase)->entries()) {
    if (const auto* pack = std::get_if<op::PackWeight<TensorId>>(&entry.op)) {
      copies.by_tensor.insert_or_assign(pack->packed.index, *pack);
    } else if (const auto* product = std::get_if<op::MatmulForward<TensorId>>(&entry.op)) {
      copies.expect(product->packed, op::PackForm::kForward, product->in_features, product->out_features, program);
    } else if (const auto* gradient = std::get_if<op::MatmulBackwardInput<TensorId>>(&entry.op)) {
      copies.expect(gradient->packed, op::PackForm::kBackward, gradient->in_features, gradient->out_features, program);
    }
  }
}

int64_t persistent_copies(const Program& program) {
  int64_t count = 0;
  for (int64_t i = 0; i < program.tensors.size(); ++i) {
    const TensorInfo& tensor = program.tensors[TensorId{static_cast<int32_t>(i)}];
    count += tensor.owner == Owner::kPackedCopies && tensor.storage == Storage::kPersistent ? 1 : 0;
  }
  return count;
}

TEST(WeightPacking, ResidentCopiesAreMadeOnceAndReadByEveryPhase) {
  const Program program = program_of(false);
  Copies copies;
  for (const auto& pack : ops_of<op::PackWeight>(*program.tape(Phase::kPack)))
    copies.by_tensor.emplace(pack.packed.index, pack);
  EXPECT_EQ(persistent_copies(program), 2 * (3 * 4 + 1));
  for (const Phase phase : {Phase::kTrainFirst, Phase::kEval}) {
    EXPECT_TRUE(ops_of<op::PackWeight>(*program.tape(phase)).empty());
    expect_products_read_copies(program, phase, copies);
  }
}

TEST(WeightPacking, OnUseEachCopyIsMadeInFrontOfItsProductsAndNoneStays) {
  for (const Recompute recompute : {Recompute::kNone, Recompute::kBlock}) {
    const Program program = program_of(true, recompute);
    EXPECT_EQ(persistent_copies(program), 0);
    EXPECT_TRUE(program.tape(Phase::kPack)->entries().empty());
    for (const Phase phase : {Phase::kTrainFirst, Phase::kEval}) expect_products_read_copies(program, phase, {});
  }
  const Program program = program_of(true);
  // All chunks of the head share its two copies.
  EXPECT_EQ(ops_of<op::PackWeight>(*program.tape(Phase::kTrainFirst)).size(), 2U * (3 * 4 + 1));
  EXPECT_EQ(ops_of<op::PackWeight>(*program.tape(Phase::kEval)).size(), 3U * 4 + 1);
}

TEST(WeightPacking, OnUseTakesLessMemory) {
  EXPECT_LT(program_of(true).memory->total_bytes(), program_of(false).memory->total_bytes());
}

TEST(WeightPacking, ABackendThatReadsWeightsAsTheyAreHasNoCopiesEitherWay) {
  for (const bool on_use : {false, true}) {
    ProgramOptions options = small_options();
    options.packs_on_use = on_use;
    const Program program = make_llama_program(small_config(), options, PlainSizes(false));
    EXPECT_EQ(persistent_copies(program), 0);
    EXPECT_TRUE(ops_of<op::PackWeight>(*program.tape(Phase::kTrainFirst)).empty());
  }
}

}  // namespace
}  // namespace litespark
