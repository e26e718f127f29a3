// SPDX-License-Identifier: Apache-2.0
// Checksums: blocks in any order, since the sum is an integer.
#include <atomic>
#include <bit>

#include "ops/cpu/cpu_backend_impl.h"
#include "ops/cpu/parallel.h"

namespace litespark::cpu {
namespace {

constexpr int64_t kElementsPerBlock = 16384;

}  // namespace

void CpuBackend::run(const op::Checksum<Tensor>& op) {
  const float* const x = op.x.as<float>();
  std::atomic<uint64_t> sum = 0;
  parallel_ranges(threads_, op.x.num_elements(), kElementsPerBlock, [&](int64_t begin, int64_t end) {
    uint64_t part = 0;
    for (int64_t i = begin; i < end; ++i) part += op::checksum_term(i, std::bit_cast<uint32_t>(x[i]));
    sum += part;
  });
  *op.out.as<int64_t>() = static_cast<int64_t>(sum.load());
}

}  // namespace litespark::cpu
