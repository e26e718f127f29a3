// SPDX-License-Identifier: Apache-2.0
// The CPU backend's own state: threads, instruction set, memory. Every op lives in the file of its name.
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "core/checked.h"
#include "core/error.h"
#include "ops/cpu/cpu_backend_impl.h"
#include "ops/cpu/host_limits.h"
#include "ops/cpu/matmul_library.h"
#include "ops/cpu/parallel.h"

namespace litespark {
namespace cpu {

namespace {

constexpr int64_t kPageBytes = 4096;
constexpr int64_t kHugePageBytes = int64_t{2} << 20;

class HostMemory final : public DeviceMemory {
 public:
  HostMemory(void* data, int64_t bytes, std::shared_ptr<MemoryLedger> ledger)
      : data_(data), bytes_(bytes), ledger_(std::move(ledger)) {
    ledger_->allocated_bytes += bytes_;
    ++ledger_->num_allocations;
  }
  ~HostMemory() override {
    std::free(data_);
    ledger_->allocated_bytes -= bytes_;
  }
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;

  void* data() const override { return data_; }
  int64_t bytes() const override { return bytes_; }

 private:
  void* data_;
  int64_t bytes_;
  std::shared_ptr<MemoryLedger> ledger_;
};

std::string_view isa_name(CpuIsa isa) {
  switch (isa) {
    case CpuIsa::kGeneric: return "generic";
    case CpuIsa::kAvx2: return "avx2";
    case CpuIsa::kAvx512: return "avx512";
    case CpuIsa::kAvx512Bf16: return "avx512bf16";
    case CpuIsa::kAmx: return "amx";
  }
  return "unknown";
}

}  // namespace

CpuBackend::CpuBackend(const CpuOptions& options)
    : threads_(options.threads > 0 ? options.threads : default_threads()),
      isa_(std::min(options.max_isa, detect_cpu_isa())),
      matmul_(make_matmul_library(threads_, isa_)) {}

CpuBackend::~CpuBackend() = default;

std::map<std::string, std::string> CpuBackend::tuning() const {
  return {{kKernelsTuning, std::string(isa_name(isa_))}};
}

std::string CpuBackend::name() const {
  return "cpu (" + std::string(isa_name(isa_)) + ", " + std::to_string(threads_) +
         (threads_ == 1 ? " thread)" : " threads)");
}

std::optional<int64_t> CpuBackend::free_bytes() const {
  return available_memory_bytes();
}

MemoryUse CpuBackend::memory_use() const {
  return {.used_bytes = resident_bytes(),
          .allocated_bytes = ledger_->allocated_bytes,
          .num_allocations = ledger_->num_allocations};
}

std::unique_ptr<DeviceMemory> CpuBackend::allocate(int64_t bytes) {
  if (bytes < 0) throw InternalError("cpu_backend", "negative allocation", bytes, "0 or more bytes");
  const auto available = available_memory_bytes();
  if (available && bytes > *available) {
    throw ConfigError("memory", "the machine has not enough free memory", std::to_string(*available) + " bytes",
                      std::to_string(bytes) + " bytes", "use a smaller micro-batch, a shorter sequence or recompute");
  }
  // Large blocks sit on huge pages: fewer TLB misses, and a much cheaper first touch.
  const bool huge = bytes >= kHugePageBytes;
  const int64_t alignment = huge ? kHugePageBytes : kPageBytes;
  const int64_t rounded = round_up(std::max<int64_t>(bytes, 1), alignment);
  void* data = std::aligned_alloc(static_cast<size_t>(alignment), static_cast<size_t>(rounded));
  if (data == nullptr) throw ConfigError("memory", "the system refused memory", "nothing", rounded);
  auto memory = std::make_unique<HostMemory>(data, bytes, ledger_);
  // Advice only: a kernel without huge pages is slower, not wrong.
  if (huge) static_cast<void>(madvise(data, static_cast<size_t>(rounded), MADV_HUGEPAGE));
  // First touch by the threads that will use the pages, so that no step pays for it.
  parallel_ranges(threads_, rounded, kHugePageBytes, [data](int64_t begin, int64_t end) {
    std::memset(static_cast<char*>(data) + begin, 0, static_cast<size_t>(end - begin));
  });
  return memory;
}

void CpuBackend::copy_to_device(void* destination, const void* source, int64_t bytes) {
  if (bytes > 0) std::memcpy(destination, source, static_cast<size_t>(bytes));
}

void CpuBackend::copy_to_host(void* destination, const void* source, int64_t bytes) {
  if (bytes > 0) std::memcpy(destination, source, static_cast<size_t>(bytes));
}

}  // namespace cpu

std::map<std::string, std::string> cpu_library_versions() {
  return {{"oneDNN", cpu::onednn_version()}};
}

std::unique_ptr<Backend> make_cpu_backend(const CpuOptions& options) {
  return std::make_unique<cpu::CpuBackend>(options);
}

}  // namespace litespark
