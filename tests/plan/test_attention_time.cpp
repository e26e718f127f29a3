// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>

#include "plan/attention_time.h"

namespace litespark {
namespace {

double tflops(AttentionKernel kernel, double length, double width, double group, bool is_backward) {
  const AttentionHeads heads = {.length = length, .width = width, .group = group, .is_backward = is_backward};
  return attention_rate(hardware_named("h200"), kernel, heads) / 1e12;
}

// TFLOP/s in the fixed order: bench/results/2026-12-01-h200-attention-forward.txt. Left out is the smallest row, 25
// heads of 64 at 1,024 tokens: 98 us forward, in which 132 multiprocessors are not evenly filled.
TEST(AttentionTime, OurKernelsTakeWhatTheyTookByThemselves) {
  struct Measured {
    double length, width, group, forward, backward;
  };
  for (const Measured& m : {Measured{1024, 128, 3, 416.4, 346.6}, Measured{2048, 128, 3, 508.1, 425.0},
                            Measured{4096, 128, 3, 562.1, 481.7}, Measured{8192, 128, 3, 581.5, 513.2},
                            Measured{16384, 128, 3, 608.5, 528.6}, Measured{4096, 128, 1, 549.4, 446.1},
                            Measured{2048, 64, 1, 388.0, 347.0}, Measured{4096, 64, 4, 438.5, 457.1},
                            Measured{131072, 64, 4, 506.6, 521.7}}) {
    const auto ours = [&](bool is_backward) {
      return tflops(AttentionKernel::kLitespark, m.length, m.width, m.group, is_backward);
    };
    EXPECT_NEAR(ours(false) / m.forward, 1, 0.02) << m.length << " of " << m.width;
    EXPECT_NEAR(ours(true) / m.backward, 1, 0.02) << m.length << " of " << m.width;
  }
}

TEST(AttentionTime, RatesGrowWithTheLengthAndNeverPassThePeak) {
  Hardware fast = hardware_named("h200");
  fast.attention = {.flash1 = 1, .flash2 = 1, .vendor_forward = 1, .vendor_backward = 1};
  std::vector<Hardware> machines = known_hardware();
  machines.push_back(fast);
  for (const Hardware& hardware : machines) {
    for (const AttentionKernel kernel :
         {AttentionKernel::kFlash1, AttentionKernel::kFlash2, AttentionKernel::kVendor, AttentionKernel::kLitespark}) {
      for (const bool is_backward : {false, true}) {
        for (const double width : {32, 64, 128, 256}) {
          for (const double group : {1, 8}) {
            double before = 0;
            for (int doublings = 0; doublings <= 24; ++doublings) {
              const double rate = attention_rate(
                  hardware, kernel,
                  {.length = std::exp2(doublings), .width = width, .group = group, .is_backward = is_backward});
              EXPECT_GE(rate, before) << hardware.name;
              EXPECT_LE(rate, hardware.peak_flops(false)) << hardware.name;
              before = rate;
            }
          }
        }
      }
    }
  }
}

TEST(AttentionTime, WiderHeadsHelpUsBothWaysAndSharedKeysBackward) {
  const auto ours = [](double width, double group, bool is_backward) {
    return tflops(AttentionKernel::kLitespark, 4096, width, group, is_backward);
  };
  EXPECT_GT(ours(128, 4, false), ours(64, 4, false));
  EXPECT_GT(ours(128, 4, true), ours(64, 4, true));
  EXPECT_EQ(ours(64, 4, false), ours(64, 1, false));
  EXPECT_GT(ours(64, 4, true), ours(64, 1, true));
}

// Measured with cuDNN forward and kernels of ours of then backward: 2026-11-30-h200-attention-backward.txt.
TEST(AttentionTime, OfOthersHeadsOf64LoseForwardAndNotBackward) {
  const auto share = [&](bool is_backward) {
    return tflops(AttentionKernel::kVendor, 4096, 64, 1, is_backward) /
           tflops(AttentionKernel::kVendor, 4096, 128, 1, is_backward);
  };
  EXPECT_NEAR(share(false), 419.0 / 553, 0.1);
  EXPECT_NEAR(share(true), 410.0 / 416, 0.05);
}

TEST(AttentionTime, WhereAMachineWasMeasuredWithOurKernelsItsOwnFiguresCount) {
  const Hardware cpu = hardware_named("cpu");
  const AttentionHeads heads = {.length = 4096, .width = 64, .group = 1, .is_backward = true};
  EXPECT_EQ(attention_rate(cpu, AttentionKernel::kLitespark, heads),
            attention_rate(cpu, AttentionKernel::kVendor, heads));
}

}  // namespace
}  // namespace litespark
