// SPDX-License-Identifier: Apache-2.0
// Conversion between f32 and bf16, or a plain copy, and the sum of two tensors.
#include <cstddef>

#include "ops/cpu/cpu_backend_impl.h"
#include "ops/cpu/kernel_table.h"
#include "ops/cpu/parallel.h"

namespace litespark::cpu {
namespace {

constexpr int64_t kElementsPerBlock = 16384;

}  // namespace

void CpuBackend::run(const op::Convert<Tensor>& op) {
  const auto convert = kernel_table(isa_).convert[index_of(op.x.dtype)][index_of(op.out.dtype)];
  const int64_t x_bytes = dtype_bytes(op.x.dtype);
  const int64_t out_bytes = dtype_bytes(op.out.dtype);
  const auto* x = static_cast<const std::byte*>(op.x.data);
  auto* out = static_cast<std::byte*>(op.out.data);
  parallel_ranges(threads_, op.x.num_elements(), kElementsPerBlock, [&](int64_t begin, int64_t end) {
    convert(x + begin * x_bytes, out + begin * out_bytes, end - begin);
  });
}

void CpuBackend::run(const op::Add<Tensor>& op) {
  const auto add = kernel_table(isa_).add[index_of(op.x.dtype)];
  const int64_t x_bytes = dtype_bytes(op.x.dtype);
  const auto* x = static_cast<const std::byte*>(op.x.data);
  parallel_ranges(threads_, op.x.num_elements(), kElementsPerBlock, [&](int64_t begin, int64_t end) {
    add(op.sum.as<float>() + begin, x + begin * x_bytes, end - begin);
  });
}

}  // namespace litespark::cpu
