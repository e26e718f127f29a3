// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>

#include "model/matmul_peak.h"
#include "ops/cpu/cpu_backend.h"

namespace litespark {
namespace {

TEST(MatmulPeak, IsARateThatAMachineCanHave) {  // report:B39
  const auto backend = make_cpu_backend({});
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const double rate = measure_matmul_rate(*backend, dtype, 0.0);
    EXPECT_TRUE(std::isfinite(rate));
    EXPECT_GT(rate, 1e6);   // slower than any machine that is still in use
    EXPECT_LT(rate, 1e17);  // a product that was not run at all looks faster
  }
}

}  // namespace
}  // namespace litespark
