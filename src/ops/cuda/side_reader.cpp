// SPDX-License-Identifier: Apache-2.0
// Reads beside the ops: a stream of its own that follows the ops' stream, and a ring of its own.
#include "ops/side_reader.h"

#include "ops/cuda/cuda_backend_impl.h"
#include "ops/cuda/staging.h"

namespace litespark::cuda {
namespace {

inline constexpr int kSlots = 16;

class StreamReader final : public SideReader {
 public:
  explicit StreamReader(const DeviceContext& context)
      : ordinal_(context.ordinal), ops_(context.stream), stream_(make_stream()), staging_(stream_, kSlots) {
    check(cudaEventCreateWithFlags(&reached_, cudaEventDisableTiming), "side reader");
  }
  ~StreamReader() override {
    cudaEventDestroy(reached_);
    cudaStreamDestroy(stream_);
  }
  StreamReader(const StreamReader&) = delete;
  StreamReader& operator=(const StreamReader&) = delete;

  void follow() override {
    check(cudaEventRecord(reached_, ops_), "side reader");
    check(cudaStreamWaitEvent(stream_, reached_), "side reader");
  }
  void read(void* destination, const void* source, int64_t bytes) override {
    check(cudaSetDevice(ordinal_), "side reader");  // a property of the thread
    staging_.to_host(static_cast<std::byte*>(destination), static_cast<const std::byte*>(source), bytes);
  }

 private:
  static cudaStream_t make_stream() {
    cudaStream_t stream = nullptr;
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "side reader");
    return stream;
  }

  int ordinal_;
  cudaStream_t ops_;
  cudaStream_t stream_;
  Staging staging_;
  cudaEvent_t reached_ = nullptr;
};

}  // namespace

std::unique_ptr<SideReader> CudaBackend::make_side_reader() {
  return std::make_unique<StreamReader>(context_);
}

}  // namespace litespark::cuda
