// SPDX-License-Identifier: Apache-2.0
#include "anatomy/ceilings.h"
#include "anatomy/tiny_measure.h"

namespace litespark::anatomy {
namespace {

CeilingSizes tiny_ceilings() {
  return {.rows = 16,
          .columns = 32,
          .most_inner = 128,
          .copy_bytes = 4096,
          .attention_tokens = 64,
          .heads = 2,
          .head_dim = 8};
}

TEST(Ceilings, FindsTheHalfOfACurveThatFollowsTheLaw) {
  Ceilings ceilings;
  for (const int64_t inner : {32, 64, 128, 256, 1 << 20}) {
    ceilings.matmul.push_back({inner, 1e12 * static_cast<double>(inner) / static_cast<double>(inner + 100)});
  }
  EXPECT_NEAR(ceilings.matmul_half_k(), 100, 0.1);
  EXPECT_NEAR(ceilings.matmul_flops_per_second(), 1e12, 1e9);
}

TEST(Ceilings, FitsASaturatingRateThroughTwoPoints) {
  const Saturation found = saturation_of(100, 50, 300, 75);  // 100 x / (x + 100)
  EXPECT_NEAR(found.limit, 100, 1e-9);
  EXPECT_NEAR(found.half, 100, 1e-9);
  EXPECT_EQ(saturation_of(100, 80, 300, 70).limit, 80);
  EXPECT_EQ(saturation_of(100, 80, 300, 70).half, 0);
  // Rates that grow faster than any such law have no limit: the larger one stands for it.
  EXPECT_EQ(saturation_of(100, 10, 200, 40).limit, 40);
}

TEST(Ceilings, FillsWhatThePlannerNeedsOfAMachine) {
  const auto backend = make_cpu_backend({.threads = 2});
  const Ceilings ceilings = measure_ceilings(*backend, tiny_measure(), tiny_ceilings());
  ASSERT_EQ(ceilings.matmul.size(), 3u);
  Hardware hardware;
  hardware.memory_gib = 1;
  put_ceilings(ceilings, hardware);
  put_attention(*backend, tiny_measure(), tiny_ceilings(), ceilings.matmul_flops_per_second(), hardware);
  EXPECT_NO_THROW(hardware.validate());
  EXPECT_GT(hardware.op_overhead_us, 0);
  EXPECT_GE(hardware.matmul_half_k, 0);
  EXPECT_GT(hardware.attention.vendor_forward, 0);
  EXPECT_LE(hardware.attention.vendor_backward, 1);
}

}  // namespace
}  // namespace litespark::anatomy
