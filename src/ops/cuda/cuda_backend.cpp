// SPDX-License-Identifier: Apache-2.0
#include "ops/cuda/cuda_backend.h"

#include <cublasLt.h>

#include "core/error.h"
#include "ops/cuda/check.h"
#include "ops/cuda/cuda_backend_impl.h"

namespace litespark {
namespace cuda {
namespace {

class CudaMemory final : public DeviceMemory {
 public:
  CudaMemory(void* data, int64_t bytes, std::shared_ptr<MemoryLedger> ledger)
      : data_(data), bytes_(bytes), ledger_(std::move(ledger)) {
    ledger_->allocated_bytes += bytes_;
    ++ledger_->num_allocations;
  }
  ~CudaMemory() override {
    cudaFree(data_);
    ledger_->allocated_bytes -= bytes_;
  }
  CudaMemory(const CudaMemory&) = delete;
  CudaMemory& operator=(const CudaMemory&) = delete;
  void* data() const override { return data_; }
  int64_t bytes() const override { return bytes_; }

 private:
  void* data_;
  int64_t bytes_;
  std::shared_ptr<MemoryLedger> ledger_;
};

int attribute(cudaDeviceAttr which, int ordinal) {
  int value = 0;
  check(cudaDeviceGetAttribute(&value, which, ordinal), "cuda_backend");
  return value;
}

DeviceContext make_context(const CudaOptions& options) {
  const int count = cuda_device_count();
  if (options.ordinal < 0 || options.ordinal >= count) {
    throw ConfigError("cuda_backend", "no such CUDA device", options.ordinal,
                      count == 0 ? "a machine with an NVIDIA driver" : "less than " + std::to_string(count),
                      "set device.kind = \"cpu\" or choose another device");
  }
  check(cudaSetDevice(options.ordinal), "cuda_backend");
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, options.ordinal), "cuda_backend");
  DeviceContext context{.ordinal = options.ordinal,
                        .device_name = properties.name,
                        .compute_capability = properties.major * 10 + properties.minor,
                        .num_multiprocessors = properties.multiProcessorCount,
                        .l2_bytes = properties.l2CacheSize,
                        .shared_bytes_per_block = attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, options.ordinal),
                        .deterministic = options.deterministic,
                        .kernels = options.kernels};
  check(cudaStreamCreateWithFlags(&context.stream, cudaStreamNonBlocking), "cuda_backend");
  check(cudaStreamCreateWithFlags(&context.copy_stream, cudaStreamNonBlocking), "cuda_backend");
  return context;
}

}  // namespace

CudaBackend::CudaBackend(const CudaOptions& options)
    : context_(make_context(options)),
      staging_(make_staging(context_)),
      offload_(make_offload_stream(context_)),
      matmul_(make_matmul_library(context_, options)),
      attention_(make_attention_library(context_, options)),
      gated_(make_gated_choices(context_)),
      sizes_(make_cuda_sizes(context_, *attention_)) {}

CudaBackend::~CudaBackend() {
  cudaStreamSynchronize(context_.stream);
  sizes_.reset();
  gated_.reset();
  attention_.reset();
  matmul_.reset();
  offload_.reset();
  staging_.reset();
  cudaStreamDestroy(context_.copy_stream);
  cudaStreamDestroy(context_.stream);
}

std::string CudaBackend::name() const {
  return "cuda (" + context_.device_name + ", sm_" + std::to_string(context_.compute_capability) + ", " +
         std::to_string(context_.num_multiprocessors) + " multiprocessors)";
}

std::optional<int64_t> CudaBackend::free_bytes() const {
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  check(cudaMemGetInfo(&free_bytes, &total_bytes), "cuda_memory");
  return static_cast<int64_t>(free_bytes);
}

MemoryUse CudaBackend::memory_use() const {
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  check(cudaMemGetInfo(&free_bytes, &total_bytes), "cuda_memory");
  return {.used_bytes = static_cast<int64_t>(total_bytes - free_bytes),
          .allocated_bytes = ledger_->allocated_bytes,
          .num_allocations = ledger_->num_allocations};
}

std::unique_ptr<DeviceMemory> CudaBackend::allocate(int64_t bytes) {
  if (bytes < 0) throw InternalError("cuda_memory", "negative size", bytes, "0 or more bytes");
  void* data = nullptr;
  const cudaError_t status = cudaMalloc(&data, static_cast<size_t>(bytes > 0 ? bytes : 1));
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    throw ConfigError("cuda_memory", "the device has not enough free memory",
                      std::to_string(free_bytes().value_or(0)) + " bytes free", std::to_string(bytes) + " bytes",
                      "lower train.micro_batch or raise memory.recompute");
  }
  check(status, "cuda_memory");
  auto memory = std::make_unique<CudaMemory>(data, bytes, ledger_);
  check(cudaMemsetAsync(data, 0, static_cast<size_t>(bytes), context_.stream), "cuda_memory");
  check(cudaStreamSynchronize(context_.stream), "cuda_memory");
  return memory;
}

void CudaBackend::synchronize() {
  check(cudaStreamSynchronize(context_.copy_stream), "synchronize");
  check(cudaStreamSynchronize(context_.stream), "synchronize");
  check(cudaGetLastError(), "synchronize");
}

}  // namespace cuda

std::map<std::string, std::string> cuda_library_versions() {
  std::map<std::string, std::string> versions = {{"cuBLASLt", std::to_string(cublasLtGetVersion())}};
  int driver = 0;
  int runtime = 0;
  if (cudaDriverGetVersion(&driver) == cudaSuccess && driver > 0) versions["CUDA driver"] = std::to_string(driver);
  if (cudaRuntimeGetVersion(&runtime) == cudaSuccess) versions["CUDA runtime"] = std::to_string(runtime);
  return versions;
}

int cuda_device_count() {
  int count = 0;
  if (cudaGetDeviceCount(&count) == cudaSuccess) return count;
  cudaGetLastError();
  return 0;
}

void* cuda_stream_of(const Backend& backend) {
  const auto* const cuda = dynamic_cast<const cuda::CudaBackend*>(&backend);
  if (cuda == nullptr) throw InternalError("cuda_stream_of", "no CUDA backend", backend.name(), "make_cuda_backend's");
  return cuda->context().stream;
}

std::unique_ptr<Backend> make_cuda_backend(const CudaOptions& options) {
  return std::make_unique<cuda::CudaBackend>(options);
}

}  // namespace litespark
