// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "plan/layer_time.h"
#include "plan/plan_examples.h"

namespace litespark {
namespace {

using test::gpt_22b_workload;
using test::llama_8b_workload;

TEST(LayerTime, LargeMatricesReachTheHardwaresShareAndSmallOnesDoNot) {
  const Hardware h200 = hardware_named("h200");
  const auto rate = [&](double m, double n, double k) {
    return 2 * m * n * k / matmul_seconds(m, n, k, h200, OperandPrecision::kBF16) / h200.peak_flops(false);
  };
  EXPECT_NEAR(rate(16384, 16384, 16384), h200.matmul_efficiency, 0.03);
  EXPECT_LT(rate(16384, 16384, 768), 0.8 * rate(16384, 16384, 16384));
  EXPECT_LT(rate(256, 1024, 1024), 0.2);
}

TEST(LayerTime, EightBitMatricesAreFasterButNeverTwice) {
  const Hardware h100 = hardware_named("h100");
  Workload workload = llama_8b_workload();
  const double bf16 = layer_seconds(workload, {}, h100, false).total();
  workload.precision = OperandPrecision::kFP8;
  const double fp8 = layer_seconds(workload, {}, h100, false).total();
  EXPECT_GT(bf16 / fp8, 1.2);
  EXPECT_LT(bf16 / fp8, 1.9);
  EXPECT_EQ(layer_seconds(workload, {}, hardware_named("a100"), false).matmul,
            layer_seconds(llama_8b_workload(), {}, hardware_named("a100"), false).matmul);
}

TEST(LayerTime, RecomputeAddsItsForward) {
  const Hardware a100 = hardware_named("a100");
  Software early;
  early.attention = AttentionKernel::kUnfused;
  Workload workload = gpt_22b_workload();
  const LayerSeconds none = layer_seconds(workload, early, a100, false);
  workload.recompute = LayerRecompute::kSelective;
  const LayerSeconds selective = layer_seconds(workload, early, a100, false);
  workload.recompute = LayerRecompute::kFull;
  const LayerSeconds full = layer_seconds(workload, early, a100, false);
  EXPECT_GT(selective.total(), none.total());
  EXPECT_DOUBLE_EQ(full.total() - none.total(), none.forward);
  // Korthikanti et al. 2022, table 4: 19.6, 20.9 and 27.2 ms.
  EXPECT_NEAR(full.total() / none.total(), 27.2 / 19.6, 0.03);
  EXPECT_NEAR(selective.total() / none.total(), 20.9 / 19.6, 0.03);
}

TEST(LayerTime, PartsAddUp) {
  Workload workload = llama_8b_workload();
  workload.layout.tp = 4;
  workload.layout.cp = 2;
  workload.recompute = LayerRecompute::kFull;
  const LayerSeconds layer = layer_seconds(workload, {}, hardware_named("h100"), false);
  EXPECT_NEAR(
      layer.total(),
      layer.matmul + layer.attention + layer.pointwise + layer.recompute + layer.tensor + layer.context + layer.expert,
      1e-12);
  EXPECT_GT(layer.tensor, 0);
}

TEST(LayerTime, TensorParallelismBeyondTheNodeIsDear) {
  Hardware h100 = hardware_named("h100");
  Workload workload = llama_8b_workload();
  const auto tensor = [&](int64_t tp) {
    workload.layout.tp = tp;
    return layer_seconds(workload, {}, h100, false).tensor;
  };
  EXPECT_GT(tensor(16), tensor(8));
  h100.network_gbps = 25;  // half a card a device
  EXPECT_GT(tensor(16), 1.5 * tensor(8));
}

TEST(LayerTime, ExpertsCostTheirVisitsAndTheExchange) {
  Workload workload = llama_8b_workload();
  workload.shape.experts = {.experts = 8, .active = 2, .ffn = 14336};
  const LayerSeconds one = layer_seconds(workload, {}, hardware_named("h100"), true);
  const LayerSeconds dense = layer_seconds(llama_8b_workload(), {}, hardware_named("h100"), false);
  EXPECT_GT(one.matmul, 1.5 * dense.matmul);
  workload.layout.ep = 8;
  EXPECT_GT(layer_seconds(workload, {}, hardware_named("h100"), true).expert, 0);
}

}  // namespace
}  // namespace litespark
