// SPDX-License-Identifier: Apache-2.0
// How long a tape would take by its arithmetic and its traffic alone: good for comparing programs of one model with
// each other, not for promising seconds.
#pragma once

#include "spec/program.h"

namespace litespark {

/// What one op on a tape asks of a device.
struct OpWork {
  double bytes = 0;  ///< every tensor but scratch once, updated ones twice
  double rows = 0;   ///< of a product [rows, inner] x [inner, columns]; 0 for other ops
  double columns = 0;
  double inner = 0;
  bool is_fp8 = false;  ///< the product is one of 8-bit floats
  double attention_flops = 0;
  double attention_length = 0;
  double attention_width = 0;  ///< of a head
  double attention_group = 1;  ///< heads of queries to one of keys
  bool is_attention_backward = false;
  double rate_share =
      1;  ///< of what ops of its kind reach: 8-bit copies with a scale a row, and products of them, are slower
  double matmul_flops() const { return 2 * rows * columns * inner; }
};
OpWork op_work(const op::AnyOp<TensorId>& op, const TensorTable& tensors);

/// What a device sustains; only the ratios matter to a comparison.
struct DeviceRates {
  double matmul_flops_per_second = 0;
  double attention_flops_per_second = 0;
  double bytes_per_second = 0;
};

/// An H200 in bf16 under a training load (bench/results).
inline constexpr DeviceRates kGpuRates = {6.3e14, 4.6e14, 4.0e12};
/// A server's cores: a hundred operations a byte rather than 160.
inline constexpr DeviceRates kCpuRates = {2.0e12, 1.0e12, 4.0e10};

/// Each op takes the longer of its arithmetic and its traffic (every tensor but scratch once, updated ones twice).
double predicted_seconds(const Tape& tape, const TensorTable& tensors, const DeviceRates& rates);

/// A whole optimizer step: `accumulation` micro-batches, the update, the packing.
double predicted_step_seconds(const Program& program, int64_t accumulation, const DeviceRates& rates);

}  // namespace litespark
