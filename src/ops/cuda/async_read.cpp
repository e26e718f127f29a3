// SPDX-License-Identifier: Apache-2.0
// Reads that the host collects later: a copy into page-locked memory on the ops' stream and an event behind it. The
// event also tells the time, so that a step's duration is the device's and not that of a host that came late to look.
#include "ops/async_read.h"

#include "ops/cuda/check.h"
#include "ops/cuda/cuda_backend_impl.h"

namespace litespark::cuda {
namespace {

class PinnedRead final : public AsyncRead {
 public:
  PinnedRead(cudaStream_t stream, int64_t bytes) : stream_(stream), bytes_(static_cast<size_t>(bytes)) {
    check(cudaHostAlloc(&slot_, bytes_, cudaHostAllocDefault), "async read");
    // The host sleeps while it waits: it is a step ahead, so that a late wake-up costs nothing and a spinning core
    // would.
    check(cudaEventCreateWithFlags(&reached_, cudaEventBlockingSync), "async read");
  }
  ~PinnedRead() override {
    cudaEventDestroy(reached_);
    cudaFreeHost(slot_);
  }
  PinnedRead(const PinnedRead&) = delete;
  PinnedRead& operator=(const PinnedRead&) = delete;

  void start(const void* source) override {
    check(cudaMemcpyAsync(slot_, source, bytes_, cudaMemcpyDeviceToHost, stream_), "async read");
    check(cudaEventRecord(reached_, stream_), "async read");
  }
  bool is_done() override {
    const cudaError_t status = cudaEventQuery(reached_);
    if (status == cudaErrorNotReady) return false;
    check(status, "async read");
    return true;
  }
  const void* wait() override {
    check(cudaEventSynchronize(reached_), "async read");
    return slot_;
  }
  double seconds_since(const AsyncRead& earlier) const override {
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, static_cast<const PinnedRead&>(earlier).reached_, reached_),
          "async read");
    return 1e-3 * static_cast<double>(milliseconds);
  }

 private:
  cudaStream_t stream_;
  size_t bytes_;
  void* slot_ = nullptr;
  cudaEvent_t reached_ = nullptr;
};

}  // namespace

std::unique_ptr<AsyncRead> CudaBackend::make_async_read(int64_t bytes) {
  return std::make_unique<PinnedRead>(context_.stream, bytes);
}

}  // namespace litespark::cuda
