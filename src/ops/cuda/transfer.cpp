// SPDX-License-Identifier: Apache-2.0
// Copies between host memory of any kind and the device through a ring of page-locked slots, so that a copy in is one
// memcpy for the caller and overlaps with the ops already issued.
#include <algorithm>
#include <array>
#include <cstring>

#include "ops/cuda/check.h"
#include "ops/cuda/cuda_backend_impl.h"

namespace litespark::cuda {

inline constexpr int kStagingSlots = 32;
inline constexpr int64_t kStagingSlotBytes = int64_t{1} << 20;

/// A slot is free again once the event recorded behind its last transfer has passed.
class Staging {
 public:
  explicit Staging(const DeviceContext& context) : stream_(context.stream) {
    check(cudaHostAlloc(&base_, static_cast<size_t>(kStagingSlots * kStagingSlotBytes), cudaHostAllocDefault),
          "staging");
    for (cudaEvent_t& event : events_) check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "staging");
  }
  ~Staging() {
    for (cudaEvent_t event : events_) cudaEventDestroy(event);
    cudaFreeHost(base_);
  }
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  void to_device(std::byte* destination, const std::byte* source, int64_t bytes) {
    for (int64_t done = 0; done < bytes; done += kStagingSlotBytes) {
      const auto part = static_cast<size_t>(std::min(kStagingSlotBytes, bytes - done));
      const size_t slot = take_slot();
      std::memcpy(slot_data(slot), source + done, part);
      check(cudaMemcpyAsync(destination + done, slot_data(slot), part, cudaMemcpyHostToDevice, stream_),
            "copy_to_device");
      check(cudaEventRecord(events_[slot], stream_), "copy_to_device");
    }
  }

  void to_host(std::byte* destination, const std::byte* source, int64_t bytes) {
    std::array<size_t, kStagingSlots> slots{};
    const int64_t parts = (bytes + kStagingSlotBytes - 1) / kStagingSlotBytes;
    const auto part_bytes = [&](int64_t part) {
      return static_cast<size_t>(std::min(kStagingSlotBytes, bytes - part * kStagingSlotBytes));
    };
    // Half of the ring is in flight while the other half is read out.
    constexpr int64_t kAhead = kStagingSlots / 2;
    for (int64_t issue = 0; issue < parts + kAhead; ++issue) {
      if (issue < parts) {
        const size_t slot = take_slot();
        slots[static_cast<size_t>(issue % kStagingSlots)] = slot;
        check(cudaMemcpyAsync(slot_data(slot), source + issue * kStagingSlotBytes, part_bytes(issue),
                              cudaMemcpyDeviceToHost, stream_),
              "copy_to_host");
        check(cudaEventRecord(events_[slot], stream_), "copy_to_host");
      }
      const int64_t ready = issue - kAhead;
      if (ready < 0) continue;
      const size_t slot = slots[static_cast<size_t>(ready % kStagingSlots)];
      check(cudaEventSynchronize(events_[slot]), "copy_to_host");
      std::memcpy(destination + ready * kStagingSlotBytes, slot_data(slot), part_bytes(ready));
    }
  }

 private:
  size_t take_slot() {
    const size_t slot = next_;
    next_ = (next_ + 1) % kStagingSlots;
    check(cudaEventSynchronize(events_[slot]), "staging");
    return slot;
  }
  void* slot_data(size_t slot) const {
    return static_cast<std::byte*>(base_) + slot * static_cast<size_t>(kStagingSlotBytes);
  }

  cudaStream_t stream_;
  void* base_ = nullptr;
  std::array<cudaEvent_t, kStagingSlots> events_{};
  size_t next_ = 0;
};

void StagingDeleter::operator()(Staging* staging) const {
  delete staging;
}

StagingPtr make_staging(const DeviceContext& context) {
  return StagingPtr(new Staging(context));
}

void CudaBackend::copy_to_device(void* destination, const void* source, int64_t bytes) {
  staging_->to_device(static_cast<std::byte*>(destination), static_cast<const std::byte*>(source), bytes);
}

void CudaBackend::copy_to_host(void* destination, const void* source, int64_t bytes) {
  staging_->to_host(static_cast<std::byte*>(destination), static_cast<const std::byte*>(source), bytes);
}

}  // namespace litespark::cuda
