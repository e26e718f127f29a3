// SPDX-License-Identifier: Apache-2.0
// What a machine can do at best, measured: products of matrices by their inner dimension, copies, the start of an op,
// attention by length. What chapters hold kernels against, and what the planner's hardware file is made of.
#pragma once

#include <vector>

#include "anatomy/measure.h"
#include "plan/hardware.h"

namespace litespark::anatomy {

/// Sizes of the products that are timed: y [rows, columns], inner dimensions up to `most_inner`.
struct CeilingSizes {
  int64_t rows = 512;
  int64_t columns = 1024;
  int64_t most_inner = 2048;
  int64_t copy_bytes = int64_t{1} << 28;
  int64_t attention_tokens = 2048;  ///< longest sequence; a quarter of it is the other
  int64_t heads = 4;
  int64_t head_dim = 64;
};

struct InnerRate {
  int64_t inner = 0;  ///< K
  double flops_per_second = 0;
};

/// FLOP/s of one product [rows, in] x [in, out] in the library that the backend takes; weights packed where it packs.
/// The fastest run counts, since other work on the machine only slows.
double measure_matmul(Backend& backend, const MeasureOptions& options, int64_t rows, int64_t in_features,
                      int64_t out_features);

struct Ceilings {
  std::vector<InnerRate> matmul;           ///< by K: 32, 64, ... most_inner
  double bytes_per_second = 0;             ///< of a copy, read and written counted
  double op_seconds = 0;                   ///< of an op on one element
  double matmul_flops_per_second() const;  ///< the best of all K
  /// K at which half of the best is reached, if rates follow K / (K + half): the median of what each K says.
  double matmul_half_k() const;
};
Ceilings measure_ceilings(Backend& backend, const MeasureOptions& options, const CeilingSizes& sizes);

/// A rate that is half of `limit` at `half` and nears it as `limit` x / (x + half).
struct Saturation {
  double limit = 0;
  double half = 0;
};
/// Through two points; half 0 where the rate does not grow.
Saturation saturation_of(double x1, double rate1, double x2, double rate2);

/// The planner's view of this machine: peaks are what was measured here, so efficiencies are 1; what was not measured
/// keeps its value.
void put_ceilings(const Ceilings& ceilings, Hardware& hardware);
/// Attention's shares of the matmul peak, measured at two lengths.
void put_attention(Backend& backend, const MeasureOptions& options, const CeilingSizes& sizes,
                   double matmul_flops_per_second, Hardware& hardware);

}  // namespace litespark::anatomy
