// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "plan/software.h"

namespace litespark {
namespace {

TEST(Software, IsReadFromItsSource) {
  EXPECT_EQ(software_in_text("pytorch/torchtitan 202412", "FSDP2, eager", "bf16").name, "torchtitan");
  EXPECT_EQ(software_in_text("mosaicml/llm-foundry", "", "amp_bf16").attention, AttentionKernel::kFlash1);
  EXPECT_EQ(software_in_text("Narayanan 2021 arXiv:2104.04473", "", "fp16").attention, AttentionKernel::kUnfused);
  EXPECT_EQ(software_in_text("NVIDIA/dgxc-benchmarking v25.04", "", "bf16").gradient_bytes, 2);
  EXPECT_TRUE(software_in_text("a table", "ZeRO-3 (DeepSpeed)", "fp16").shards_layers);
}

TEST(Software, AnUnknownOneHasFusedKernelsAndASharedOptimizer) {
  const Software software = software_in_text("a blog", "", "bf16");
  EXPECT_TRUE(software.fuses_pointwise);
  EXPECT_TRUE(software.shards_optimizer);
  EXPECT_FALSE(software.shards_layers);
  EXPECT_EQ(software.attention, AttentionKernel::kVendor);
}

TEST(Software, OptionsOfARunAreReadFromItsRemarks) {
  EXPECT_FALSE(software_in_text("torchtitan 2024", "eager", "bf16").fuses_pointwise);
  EXPECT_FALSE(software_in_text("torchtitan 2024", "compile", "bf16").fused_loss);
  EXPECT_TRUE(software_in_text("torchtitan 2025", "compile", "bf16").fused_loss);
  EXPECT_EQ(software_in_text("llm-foundry", "MP mode PURE", "bf16").gradient_bytes, 2);
  EXPECT_TRUE(software_in_text("llm-foundry", "FSDP SHARD_GRAD_OP", "bf16").keeps_gathered);
  EXPECT_TRUE(software_in_text("Megatron-LM", "cross entropy fusion", "bf16").fused_loss);
}

TEST(Software, OurKernelsShareOnlyWhatFiguresOfGpusSay) {
  const KernelShares kernels = litespark_software().kernels;
  const Hardware h200 = hardware_named("h200");
  EXPECT_GT(with_kernels(h200, kernels).matmul_efficiency, h200.matmul_efficiency);
  const Hardware cpu = hardware_named("cpu");
  EXPECT_EQ(with_kernels(cpu, kernels).matmul_efficiency, cpu.matmul_efficiency);
  EXPECT_EQ(with_kernels(h200, Software{}.kernels).matmul_half_k, h200.matmul_half_k);
}

// 3B's attention between matmuls, over what it has alone: docs/planner.md.
TEST(Software, OurAttentionIsSlowerBetweenMatmulsThanAlone) {
  const KernelShares kernels = litespark_software().kernels;
  const Hardware h200 = hardware_named("h200");
  const auto share = [&](const Hardware& hardware, double matmul_share) {
    const AttentionRates between = between_matmuls(hardware, kernels, matmul_share).attention;
    EXPECT_DOUBLE_EQ(between.vendor_forward / hardware.attention.vendor_forward,
                     between.vendor_backward / hardware.attention.vendor_backward);
    return between.vendor_forward / hardware.attention.vendor_forward;
  };
  EXPECT_EQ(share(h200, 0), 1);
  EXPECT_NEAR(share(h200, 0.77), (486 / 562.1 + 426 / 481.7) / 2, 0.01);
  EXPECT_LT(share(h200, 1), share(h200, 0.5));
  EXPECT_EQ(share(hardware_named("cpu"), 1), 1);
  EXPECT_EQ(between_matmuls(h200, Software{}.kernels, 1).attention.vendor_forward, h200.attention.vendor_forward);
}

}  // namespace
}  // namespace litespark
