// SPDX-License-Identifier: Apache-2.0
// Checksums: blocks in any order, since the sum is an integer.
#include <atomic>
#include <bit>

#include "ops/cpu/cpu_backend_impl.h"
#include "ops/cpu/parallel.h"

namespace litespark::cpu {
namespace {

constexpr int64_t kElementsPerBlock = 16384;

uint32_t bits_of(float value) {
  return std::bit_cast<uint32_t>(value);
}
uint32_t bits_of(bf16 value) {
  return value.bits;
}

}  // namespace

void CpuBackend::run(const op::Checksum<Tensor>& op) {
  std::atomic<uint64_t> sum = 0;
  visit_float_dtype(op.kName, op.x.dtype, [&](auto tag) {
    const auto* const x = op.x.as<typename decltype(tag)::type>();
    parallel_ranges(threads_, op.x.num_elements(), kElementsPerBlock, [&](int64_t begin, int64_t end) {
      uint64_t part = 0;
      for (int64_t i = begin; i < end; ++i) part += op::checksum_term(i, bits_of(x[i]));
      sum += part;
    });
  });
  *op.out.as<int64_t>() = static_cast<int64_t>(sum.load());
}

}  // namespace litespark::cpu
