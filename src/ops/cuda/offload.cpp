// SPDX-License-Identifier: Apache-2.0
// Copies between the device and pinned host memory on a stream of their own, tied to the main one by events: a captured
// graph keeps both branches.
#include <vector>

#include "ops/cuda/check.h"
#include "ops/cuda/cuda_backend_impl.h"

namespace litespark::cuda {
namespace {

class PinnedMemory final : public DeviceMemory {
 public:
  PinnedMemory(void* data, int64_t bytes) : data_(data), bytes_(bytes) {}
  ~PinnedMemory() override { cudaFreeHost(data_); }
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;
  void* data() const override { return data_; }
  int64_t bytes() const override { return bytes_; }

 private:
  void* data_;
  int64_t bytes_;
};

}  // namespace

class OffloadStream {
 public:
  explicit OffloadStream(const DeviceContext& context) : main_(context.stream) {
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "offload");
    check(cudaEventCreateWithFlags(&ready_, cudaEventDisableTiming), "offload");
  }
  ~OffloadStream() {
    for (cudaEvent_t event : done_) cudaEventDestroy(event);
    cudaEventDestroy(ready_);
    cudaStreamDestroy(stream_);
  }
  OffloadStream(const OffloadStream&) = delete;
  OffloadStream& operator=(const OffloadStream&) = delete;

  /// Makes the event of a ticket, outside of any recording.
  void prepare(int ticket) {
    while (static_cast<int>(done_.size()) <= ticket) {
      cudaEvent_t event = nullptr;
      check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "offload");
      done_.push_back(event);
    }
  }

  void copy(void* destination, const void* source, int64_t bytes, cudaMemcpyKind kind, int ticket) {
    prepare(ticket);
    check(cudaEventRecord(ready_, main_), "offload");
    check(cudaStreamWaitEvent(stream_, ready_), "offload");
    check(cudaMemcpyAsync(destination, source, static_cast<size_t>(bytes), kind, stream_), "offload");
    check(cudaEventRecord(done_[static_cast<size_t>(ticket)], stream_), "offload");
  }

  void wait(int ticket) {
    prepare(ticket);
    check(cudaStreamWaitEvent(main_, done_[static_cast<size_t>(ticket)]), "offload");
  }

 private:
  cudaStream_t main_;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t ready_ = nullptr;
  std::vector<cudaEvent_t> done_;  ///< by ticket
};

void OffloadStreamDeleter::operator()(OffloadStream* stream) const {
  delete stream;
}

OffloadStreamPtr make_offload_stream(const DeviceContext& context) {
  return OffloadStreamPtr(new OffloadStream(context));
}

void prepare_offload(OffloadStream& stream, int ticket) {
  stream.prepare(ticket);
}

std::unique_ptr<DeviceMemory> CudaBackend::allocate_pinned(int64_t bytes) {
  void* data = nullptr;
  const cudaError_t status = cudaHostAlloc(&data, static_cast<size_t>(bytes > 0 ? bytes : 1), cudaHostAllocDefault);
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    throw ConfigError("memory.offload", "the host has not enough memory to pin", "nothing",
                      std::to_string(bytes) + " bytes", "set memory.offload = \"none\"");
  }
  check(status, "memory.offload");
  return std::make_unique<PinnedMemory>(data, bytes);
}

void CudaBackend::run(const op::OffloadStore<Tensor>& op) {
  offload_->copy(op.host.data, op.device.data, op.device.bytes(), cudaMemcpyDeviceToHost, op.ticket);
}

void CudaBackend::run(const op::OffloadFetch<Tensor>& op) {
  offload_->copy(op.device.data, op.host.data, op.device.bytes(), cudaMemcpyHostToDevice, op.ticket);
}

void CudaBackend::run(const op::OffloadWait<Tensor>& op) {
  offload_->wait(op.ticket);
}

}  // namespace litespark::cuda
