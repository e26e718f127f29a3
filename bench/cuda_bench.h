// SPDX-License-Identifier: Apache-2.0
// Times ops on one GPU: an arena of random data, several copies of each case so that the cache never helps, events
// around batches of launches, medians.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ops/cuda/cuda_backend_impl.h"

namespace litespark::bench {

/// One op at one shape.
struct BenchCase {
  std::string name;             ///< "rms_norm_forward"
  std::string shape;            ///< "3B 16384x3072 bf16"
  op::AnyOp<Tensor> op;         ///< shapes and scalars, no data
  int64_t integer_bound = 1;    ///< i32 inputs are drawn below it
  int integer_power = 1;        ///< 1: evenly; 4: bound * u^4, a few values as frequent as a language's words
  int64_t counted_bytes = 0;    ///< 0: every input once, every output once, scratch and lookup tables aside
  bool destroys_input = false;  ///< input restored before each launch, outside the timing
};

struct Timing {
  std::string name;
  std::string shape;
  int64_t bytes = 0;
  double microseconds = 0;  ///< median
  double gigabytes_per_second = 0;
};

/// Owns the device memory of all cases, reused from case to case.
class CudaBench {
 public:
  explicit CudaBench(cuda::CudaBackend& backend);
  ~CudaBench();
  CudaBench(const CudaBench&) = delete;
  CudaBench& operator=(const CudaBench&) = delete;

  Timing time(const BenchCase& bench);
  /// Device-to-device copy of 1 GiB, bytes read plus bytes written.
  Timing time_copy();

 private:
  struct Placement;
  /// Median over batches of `launches` calls of `body(i)`, in microseconds a call; `before` runs untimed.
  double median_microseconds(int launches, const std::function<void(int)>& body, const std::function<void()>& before);
  void fill();

  cuda::CudaBackend& backend_;
  std::unique_ptr<DeviceMemory> arena_;
  cudaEvent_t start_ = nullptr;
  cudaEvent_t stop_ = nullptr;
};

/// The streaming ops at the shapes of the 3B, 1B and 160M Llama models.
std::vector<BenchCase> streaming_cases();

}  // namespace litespark::bench
