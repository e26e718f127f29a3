// SPDX-License-Identifier: Apache-2.0
// Batches on a copy stream. The bus is slow and the graphs of a step read fixed addresses, so a batch travels into one
// of two staging blocks while the ops still read the batch before, and a copy within the device, some microseconds
// long, puts it in its place between the two.
#include "ops/staged_upload.h"

#include <array>
#include <cstring>

#include "ops/cuda/check.h"
#include "ops/cuda/cuda_backend_impl.h"

namespace litespark::cuda {
namespace {

class StreamUpload final : public StagedUpload {
 public:
  StreamUpload(const DeviceContext& context, const Tensor& destination, const Tensor& staging)
      : ops_(context.stream),
        copies_(context.copy_stream),
        destination_(destination.data),
        bytes_(static_cast<size_t>(destination.bytes())) {
    check(cudaHostAlloc(&host_, 2 * bytes_, cudaHostAllocDefault), "batch upload");
    std::memset(host_, 0, 2 * bytes_);
    for (size_t i = 0; i < slots_.size(); ++i) {
      slots_[i].host = static_cast<std::byte*>(host_) + i * bytes_;
      slots_[i].device = static_cast<std::byte*>(staging.data) + i * bytes_;
      check(cudaEventCreateWithFlags(&slots_[i].arrived, cudaEventDisableTiming), "batch upload");
      check(cudaEventCreateWithFlags(&slots_[i].placed, cudaEventDisableTiming), "batch upload");
    }
  }
  ~StreamUpload() override {
    for (const Slot& slot : slots_) {
      cudaEventDestroy(slot.arrived);
      cudaEventDestroy(slot.placed);
    }
    cudaFreeHost(host_);
  }
  StreamUpload(const StreamUpload&) = delete;
  StreamUpload& operator=(const StreamUpload&) = delete;

  void fill(std::span<const Part> parts) override {
    const Slot& slot = slots_[next_];
    next_ = (next_ + 1) % slots_.size();
    check(cudaEventSynchronize(slot.arrived), "batch upload");  // of the fill before the last: the host block is free
    for (const Part& part : parts) {
      std::memcpy(slot.host + part.offset_bytes, part.source, static_cast<size_t>(part.bytes));
    }
    check(cudaStreamWaitEvent(copies_, slot.placed), "batch upload");
    check(cudaMemcpyAsync(slot.device, slot.host, bytes_, cudaMemcpyHostToDevice, copies_), "batch upload");
    check(cudaEventRecord(slot.arrived, copies_), "batch upload");
    check(cudaStreamWaitEvent(ops_, slot.arrived), "batch upload");
    check(cudaMemcpyAsync(destination_, slot.device, bytes_, cudaMemcpyDeviceToDevice, ops_), "batch upload");
    check(cudaEventRecord(slot.placed, ops_), "batch upload");
  }

 private:
  struct Slot {
    std::byte* host = nullptr;    ///< page-locked
    std::byte* device = nullptr;  ///< in the staging tensor
    cudaEvent_t arrived = nullptr;
    cudaEvent_t placed = nullptr;
  };

  cudaStream_t ops_;
  cudaStream_t copies_;
  void* destination_;
  size_t bytes_;
  void* host_ = nullptr;
  std::array<Slot, 2> slots_{};
  size_t next_ = 0;
};

}  // namespace

std::unique_ptr<StagedUpload> CudaBackend::make_staged_upload(const Tensor& destination, const Tensor& staging) {
  return std::make_unique<StreamUpload>(context_, destination, staging);
}

}  // namespace litespark::cuda
