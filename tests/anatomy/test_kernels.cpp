// SPDX-License-Identifier: Apache-2.0
#include "anatomy/kernels.h"
#include "anatomy/tiny_measure.h"
#include "plan/tape_counts.h"

namespace litespark::anatomy {
namespace {

KernelSizes tiny_kernels() {
  return {.model = tiny_sizes(),
          .ceilings = {.rows = 16,
                       .columns = 32,
                       .most_inner = 64,
                       .copy_bytes = 4096,
                       .attention_tokens = 32,
                       .heads = 2,
                       .head_dim = 8},
          .num_runs = 2};
}

TEST(KernelsChapter, CountsExactlyWhatThePlannerCounts) {
  const auto backend = make_cpu_backend({.threads = 1});
  PreparedModel model(*backend, tiny_sizes(), train_options(tiny_sizes(), DType::kF32));
  const KernelCosts costs = measure_kernels(model, 1);
  const ComponentCounts planned = count_micro_batch(model.executor().program()).total();
  EXPECT_EQ(costs.whole.flops, planned.forward_flops + planned.backward_flops);
  EXPECT_EQ(costs.whole.bytes, planned.bytes);
  EXPECT_FALSE(model.executor().is_observed());
}

TEST(KernelsChapter, BooksEveryOpOnceByComponentAndOnceByLayer) {
  const auto backend = make_cpu_backend({.threads = 1});
  PreparedModel model(*backend, tiny_sizes(), train_options(tiny_sizes(), DType::kF32));
  const KernelCosts costs = measure_kernels(model, 2);
  for (const auto* list : {&costs.components, &costs.layers}) {
    int num_ops = 0;
    double seconds = 0;
    for (const KernelCost& cost : *list) {
      EXPECT_GT(cost.seconds, 0) << cost.name;
      num_ops += cost.num_ops;
      seconds += cost.seconds;
    }
    EXPECT_EQ(num_ops, costs.whole.num_ops);
    EXPECT_NEAR(seconds, costs.whole.seconds, 1e-9);
  }
  EXPECT_EQ(costs.layers.size(), 4u + 1u);
  EXPECT_EQ(costs.sum_of({"forward.attention"}).num_ops, 4);
  EXPECT_EQ(costs.sum_of({"forward.attention", "no.such"}).num_ops, 4);
}

TEST(KernelsChapter, GivesThePlannerAMachineToPlanFor) {
  const auto backend = make_cpu_backend({.threads = 1});
  Hardware hardware;
  hardware.memory_gib = 1;
  const Chapter chapter = kernels_chapter(*backend, tiny_measure(), tiny_kernels(), &hardware);
  EXPECT_NO_THROW(hardware.validate());
  EXPECT_DOUBLE_EQ(hardware.bf16_tflops * 1e3, number_of(chapter, "matmul_ceiling"));
  EXPECT_DOUBLE_EQ(hardware.memory_tbps * 1e3, number_of(chapter, "copy_ceiling"));
  for (const char* key : {"step_use", "positions_bytes", "attention_use", "attention_unfused", "mlp"}) {
    EXPECT_GT(number_of(chapter, key), 0) << key;
  }
  EXPECT_EQ(table_of(chapter, "layers").rows.size(), 5u);
  EXPECT_EQ(table_of(chapter, "inner_dimension").rows.size(), 2u);
}

}  // namespace
}  // namespace litespark::anatomy
