// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "plan/layout_memory.h"
#include "plan/plan_examples.h"

namespace litespark {
namespace {

using test::gpt_22b_workload;
using test::llama_8b_workload;

constexpr double kGiB = 1073741824.0;

Software early() {
  Software software;
  software.attention = AttentionKernel::kUnfused;
  software.has_dropout = true;
  software.shards_optimizer = false;
  return software;
}

// Korthikanti et al. 2022, figures 1 and 7.
TEST(LayoutMemory, ReproducesThePublishedActivations) {
  Workload workload = gpt_22b_workload();
  const auto kept = [&] { return layout_memory(workload, early()).activations / kGiB; };
  EXPECT_NEAR(kept(), 59.25, 0.01);
  workload.recompute = LayerRecompute::kSelective;
  EXPECT_NEAR(kept() / 59.25, 0.494, 0.002);
  workload.layout.sequence_parallel = true;
  EXPECT_NEAR(kept(), 9.56, 0.01);
  workload.layout.sequence_parallel = false;
  workload.recompute = LayerRecompute::kFull;
  EXPECT_NEAR(kept() / 59.25, 0.0764, 0.001);
}

TEST(LayoutMemory, InterleavedChunksKeepMoreInFlight) {
  Workload workload = gpt_22b_workload();
  workload.shape.layers = 96;
  workload.layout.pp = 8;
  workload.global_batch = 64 * workload.micro_batch;
  EXPECT_EQ(layers_in_flight(workload), 96);
  workload.layout.vpp = 3;
  EXPECT_NEAR(layers_in_flight(workload), 96 * (1 + 7.0 / 24), 1e-9);
  workload.global_batch = 2 * workload.micro_batch;
  EXPECT_EQ(layers_in_flight(workload), 24);
}

TEST(LayoutMemory, MoreShardsNeverTakeMore) {
  for (const MemoryRule rule : {MemoryRule::kFlat, MemoryRule::kSharded}) {
    Software software;
    software.memory = rule;
    Workload workload = llama_8b_workload();
    double before = 1e30;
    for (int64_t dp = 1; dp <= 128; dp *= 2) {
      workload.layout.dp = dp;
      const double total = layout_memory(workload, software).total();
      EXPECT_LT(total, before);
      before = total;
    }
  }
}

TEST(LayoutMemory, RecomputeKeepsLessAndNeedsALayerMore) {
  Software sharded;
  sharded.memory = MemoryRule::kSharded;
  sharded.saves_every_second_matmul = true;
  Workload workload = llama_8b_workload();
  const LayoutMemory none = layout_memory(workload, sharded);
  workload.recompute = LayerRecompute::kSelective;
  const LayoutMemory selective = layout_memory(workload, sharded);
  workload.recompute = LayerRecompute::kFull;
  const LayoutMemory full = layout_memory(workload, sharded);
  EXPECT_GT(none.activations, selective.activations);
  EXPECT_GT(selective.activations, full.activations);
  EXPECT_GT(full.working, none.working);
  EXPECT_GT(none.total(), full.total());
}

TEST(LayoutMemory, SplitModelsTakeTheirPart) {
  Workload workload = llama_8b_workload();
  const double whole = layout_memory(workload, {}).total();
  workload.layout.tp = 8;
  EXPECT_LT(layout_memory(workload, {}).total(), 0.4 * whole);
}

}  // namespace
}  // namespace litespark
