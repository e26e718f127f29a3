// SPDX-License-Identifier: Apache-2.0
// What timings before the first step need: device memory of their own, which may not be there, and events.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "ops/cuda/check.h"

namespace litespark::cuda {

/// Device memory for the length of a timing.
class TemporaryMemory {
 public:
  explicit TemporaryMemory(int64_t bytes) {
    if (cudaMalloc(&data_, static_cast<size_t>(bytes)) != cudaSuccess) {
      data_ = nullptr;
      cudaGetLastError();
    }
  }
  ~TemporaryMemory() { cudaFree(data_); }
  TemporaryMemory(const TemporaryMemory&) = delete;
  TemporaryMemory& operator=(const TemporaryMemory&) = delete;
  /// nullptr: the device has not that much.
  char* data() const { return static_cast<char*>(data_); }

 private:
  void* data_ = nullptr;
};

class Event {
 public:
  Event() { check(cudaEventCreate(&event_), "timing"); }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace litespark::cuda
