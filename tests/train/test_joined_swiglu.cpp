// SPDX-License-Identifier: Apache-2.0
// Training with SwiGLU inside the MLP's products: the bits of training with both apart, whatever is recomputed and
// however numbers are kept.
#include <gtest/gtest.h>

#include "train/compared_runs.h"

namespace litespark {
namespace {

TEST(JoinedSwiGlu, TrainsTheBitsOfProductAndSwiGluApart) {
  for (const DType compute : {DType::kF32, DType::kBF16}) {
    for (const Recompute recompute :
         {Recompute::kNone, Recompute::kNormAct, Recompute::kKeepAttention, Recompute::kBlock, Recompute::kEveryK}) {
      RankedRun run{.batches = twelve_batches(), .packs = false};
      run.options.compute = compute;
      run.options.recompute = recompute;
      run.options.recompute_every = 2;
      const Outcome apart = train_ranks(1, run, 3);
      run.joins_swiglu = true;
      SCOPED_TRACE(std::string(dtype_name(compute)) + ", recompute " + std::to_string(static_cast<int>(recompute)));
      expect_same_bits(train_ranks(1, run, 3), apart);
    }
  }
}

}  // namespace
}  // namespace litespark
