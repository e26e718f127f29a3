// SPDX-License-Identifier: Apache-2.0
// Checksums: blocks in any order, since the sum is an integer.
#include <atomic>

#include "ops/cpu/cpu_backend_impl.h"
#include "ops/cpu/parallel.h"

namespace litespark::cpu {
namespace {

constexpr int64_t kElementsPerBlock = 16384;

template <class Bits>
uint64_t checksum_of(const Tensor& tensor, int threads) {
  const auto* const x = static_cast<const Bits*>(tensor.data);
  std::atomic<uint64_t> sum = 0;
  parallel_ranges(threads, tensor.num_elements(), kElementsPerBlock, [&](int64_t begin, int64_t end) {
    uint64_t part = 0;
    for (int64_t i = begin; i < end; ++i) part += op::checksum_term(i, x[i]);
    sum += part;
  });
  return sum.load();
}

}  // namespace

void CpuBackend::run(const op::Checksum<Tensor>& op) {
  const int64_t bytes = dtype_bytes(op.x.dtype);
  const uint64_t sum = bytes == 4   ? checksum_of<uint32_t>(op.x, threads_)
                       : bytes == 2 ? checksum_of<uint16_t>(op.x, threads_)
                                    : checksum_of<uint8_t>(op.x, threads_);
  *op.out.as<int64_t>() = static_cast<int64_t>(sum);
}

}  // namespace litespark::cpu
