// SPDX-License-Identifier: Apache-2.0
#include "anatomy/fragmentation.h"
#include "anatomy/tiny_measure.h"
#include "support/plain_sizes.h"

namespace litespark::anatomy {
namespace {

FragmentationSizes middle_sizes() {
  return {.model = {.vocab = 8192,
                    .hidden = 512,
                    .ffn = 1536,
                    .layers = 4,
                    .heads = 8,
                    .kv_heads = 8,
                    .sequences = 1,
                    .length = 0},
          .lengths = {1024, 4096},
          .num_steps = 6};
}

TEST(FragmentationChapter, NeverPlansMoreThanACachingAllocatorReserves) {
  const Chapter chapter = fragmentation_chapter(PlainSizes(), DType::kBF16, middle_sizes());
  const Table& table = table_of(chapter, "lengths");
  ASSERT_EQ(table.rows.size(), 2u);
  const std::vector<double> live = column_of(table, 1);
  const std::vector<double> planned = column_of(table, 2);
  const std::vector<double> cached = column_of(table, 4);
  const std::vector<double> varied = column_of(table, 7);
  for (size_t i = 0; i < live.size(); ++i) {
    EXPECT_LE(live[i], planned[i]);
    EXPECT_LE(planned[i], cached[i]);
    EXPECT_LE(cached[i], varied[i]);
  }
}

TEST(FragmentationChapter, LosesMoreToACacheThanToAPlan) {
  const Chapter chapter = fragmentation_chapter(PlainSizes(), DType::kBF16, middle_sizes());
  EXPECT_GE(number_of(chapter, "plan_lost"), 0);
  EXPECT_LT(number_of(chapter, "plan_lost"), number_of(chapter, "cached_lost"));
}

TEST(FragmentationChapter, GivesBackEveryTensorOfAStep) {
  const Program program =
      make_llama_program(tiny_sizes().config(), train_options(tiny_sizes(), DType::kF32), PlainSizes());
  const PhaseLifetimes phase = tape_lifetimes(*program.tape(Phase::kTrainFirst), program.tensors);
  CachingAllocator allocator;
  replay_lifetimes(allocator, program.tensors, phase);
  EXPECT_EQ(allocator.allocated_bytes(), 0);
  EXPECT_GT(allocator.peak_requested_bytes(), 0);
  const int64_t after_one = allocator.reserved_bytes();
  replay_lifetimes(allocator, program.tensors, phase);
  EXPECT_EQ(allocator.reserved_bytes(), after_one) << "the same step fits where it was";
}

}  // namespace
}  // namespace litespark::anatomy
