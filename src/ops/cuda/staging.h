// SPDX-License-Identifier: Apache-2.0
// A ring of page-locked slots on one stream: host memory of any kind reaches the device through it, and back, with a
// bounded amount of page-locked memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <vector>

#include "ops/cuda/check.h"

namespace litespark::cuda {

inline constexpr int64_t kStagingSlotBytes = int64_t{1} << 20;

/// A slot is free again once the event recorded behind its last transfer has passed.
class Staging {
 public:
  /// `num_slots`: of a mebibyte each, even.
  Staging(cudaStream_t stream, int num_slots) : stream_(stream), events_(static_cast<size_t>(num_slots)) {
    check(cudaHostAlloc(&base_, events_.size() * static_cast<size_t>(kStagingSlotBytes), cudaHostAllocDefault),
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
    const int64_t parts = (bytes + kStagingSlotBytes - 1) / kStagingSlotBytes;
    const auto part_bytes = [&](int64_t part) {
      return static_cast<size_t>(std::min(kStagingSlotBytes, bytes - part * kStagingSlotBytes));
    };
    // Half of the ring is in flight while the other half is read out.
    const auto ahead = static_cast<int64_t>(events_.size() / 2);
    for (int64_t issue = 0; issue < parts + ahead; ++issue) {
      if (issue < parts) {
        const size_t slot = take_slot();
        slots_[static_cast<size_t>(issue) % slots_.size()] = slot;
        check(cudaMemcpyAsync(slot_data(slot), source + issue * kStagingSlotBytes, part_bytes(issue),
                              cudaMemcpyDeviceToHost, stream_),
              "copy_to_host");
        check(cudaEventRecord(events_[slot], stream_), "copy_to_host");
      }
      const int64_t ready = issue - ahead;
      if (ready < 0) continue;
      const size_t slot = slots_[static_cast<size_t>(ready) % slots_.size()];
      check(cudaEventSynchronize(events_[slot]), "copy_to_host");
      std::memcpy(destination + ready * kStagingSlotBytes, slot_data(slot), part_bytes(ready));
    }
  }

 private:
  size_t take_slot() {
    const size_t slot = next_;
    next_ = (next_ + 1) % events_.size();
    check(cudaEventSynchronize(events_[slot]), "staging");
    return slot;
  }
  void* slot_data(size_t slot) const {
    return static_cast<std::byte*>(base_) + slot * static_cast<size_t>(kStagingSlotBytes);
  }

  cudaStream_t stream_;
  void* base_ = nullptr;
  std::vector<cudaEvent_t> events_;
  std::vector<size_t> slots_ = std::vector<size_t>(events_.size());  ///< of the parts of a copy to the host in flight
  size_t next_ = 0;
};

}  // namespace litespark::cuda
