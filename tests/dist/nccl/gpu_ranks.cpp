// SPDX-License-Identifier: Apache-2.0
#include "gpu_ranks.h"

#include <barrier>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace litespark::test {
namespace {

void must(cudaError_t status) {
  if (status != cudaSuccess) throw std::runtime_error(std::string("CUDA: ") + cudaGetErrorString(status));
}

class GpuMemory final : public RankMemory {
 public:
  explicit GpuMemory(cudaStream_t stream) : stream_(stream) {}
  ~GpuMemory() override {
    for (void* block : blocks_) cudaFree(block);
  }
  void* allocate(int64_t bytes) override {
    void* block = nullptr;
    must(cudaMalloc(&block, static_cast<size_t>(bytes)));
    blocks_.push_back(block);
    return block;
  }
  void write(void* destination, const void* source, int64_t bytes) override {
    must(cudaMemcpyAsync(destination, source, static_cast<size_t>(bytes), cudaMemcpyHostToDevice, stream_));
    must(cudaStreamSynchronize(stream_));
  }
  void read(void* destination, const void* source, int64_t bytes) override {
    must(cudaMemcpyAsync(destination, source, static_cast<size_t>(bytes), cudaMemcpyDeviceToHost, stream_));
    must(cudaStreamSynchronize(stream_));
  }
  Device device() const override { return Device::kCuda; }

 private:
  cudaStream_t stream_;
  std::vector<void*> blocks_;
};

void run_rank(NcclOptions options, std::barrier<>& meeting, const std::function<void(const GpuRank& rank)>& body) {
  must(cudaSetDevice(options.rank));
  cudaStream_t stream = nullptr;
  must(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  options.device = options.rank;
  options.compute_stream = stream;
  {
    GpuMemory memory(stream);
    const std::unique_ptr<Communicator> communicator = make_nccl_communicator(options);
    try {
      body({.communicator = *communicator, .memory = memory, .stream = stream, .meeting = meeting});
    } catch (const std::exception& error) {
      communicator->abort(error.what());
      throw;
    }
  }
  cudaStreamDestroy(stream);
}

}  // namespace

int num_gpus() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

void run_gpu_ranks(int size, const NcclOptions& options, const std::function<void(const GpuRank& rank)>& body) {
  const NcclId id = make_nccl_id();
  std::mutex mutex;
  std::exception_ptr first;
  std::barrier<> meeting(size);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      NcclOptions own = options;
      own.id = id;
      own.rank = rank;
      own.size = size;
      try {
        run_rank(own, meeting, body);
        meeting.arrive_and_drop();
      } catch (...) {
        meeting.arrive_and_drop();
        const std::lock_guard lock(mutex);
        if (!first) first = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (first) std::rethrow_exception(first);
}

}  // namespace litespark::test
