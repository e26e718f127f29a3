// SPDX-License-Identifier: Apache-2.0
// The rate that MFU is measured against, with where it comes from: dense, of this device and dtype.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/dtype.h"

namespace litespark {

struct PeakRate {
  double flops_per_second = 0;
  std::string source;  ///< "meter.peak_tflops", "data sheet, dense bf16", "measured matmul"
};

/// The data sheet's dense BF16 peak of a GPU; nullopt, so an unknown MFU, for other boards and dtypes.
std::optional<PeakRate> gpu_peak(std::string_view device_name, DType compute);

/// Share of the peak: tokens x FLOPs a token over seconds x peak; nullopt without a peak or time.
std::optional<double> model_flops_utilization(double flops, double seconds, const std::optional<PeakRate>& peak);

}  // namespace litespark
