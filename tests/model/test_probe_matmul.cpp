// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "core/error.h"
#include "model/probe_matmul.h"
#include "ops/cpu/cpu_backend.h"

namespace litespark {
namespace {

TEST(ProbeMatmul, EveryInstructionSetGivesTheKnownResult) {  // fault:C4
  for (const CpuIsa isa : {CpuIsa::kGeneric, CpuIsa::kAvx2, CpuIsa::kAvx512, CpuIsa::kAvx512Bf16, CpuIsa::kAmx}) {
    if (isa > detect_cpu_isa()) continue;
    const auto backend = make_cpu_backend({.threads = 2, .max_isa = isa});
    for (const DType compute : {DType::kF32, DType::kBF16}) {
      const MatmulCheck check = check_matmul(*backend, compute, 3);
      EXPECT_EQ(check.num_wrong, 0) << backend->name() << " " << dtype_name(compute);
      EXPECT_EQ(check.num_changed, 0);
      EXPECT_TRUE(check.pass());
      EXPECT_EQ(check.num_repeats, 3);
    }
  }
}

TEST(ProbeMatmul, OneWrongValueAmongAllIsFound) {  // fault:C4
  const auto backend = make_cpu_backend({.threads = 1});
  std::vector<float> zeros(static_cast<size_t>(check_matmul(*backend, DType::kF32, 0).num_values));
  const int64_t wrong = count_wrong_products(zeros);
  EXPECT_GT(wrong, std::ssize(zeros) / 2);
  zeros[5] = 0.5f;  // whole numbers alone are right
  EXPECT_GE(count_wrong_products(zeros), wrong);
  EXPECT_LE(count_wrong_products(zeros), wrong + 1);
}

TEST(ProbeMatmul, MultipliesWhatItIsGiven) {
  const auto backend = make_cpu_backend({.threads = 1});
  ProbeMatmul probe(*backend, DType::kF32, {.rows = 2, .in_features = 3, .out_features = 2});
  probe.set_x({1, 2, 3, 4, 5, 6});
  probe.set_weight({1, 0, 0, 0, 1, 1});
  probe.run();
  EXPECT_EQ(probe.y(), (std::vector<float>{1, 5, 4, 11}));
  EXPECT_THROW(probe.set_x({1}), InternalError);
}

}  // namespace
}  // namespace litespark
