// SPDX-License-Identifier: Apache-2.0
// Columns of a matrix as a matrix of their own, and two matrices beside each other.
#include <cstddef>
#include <cstring>

#include "ops/cpu/cpu_backend_impl.h"
#include "ops/cpu/kernel_table.h"
#include "ops/cpu/parallel.h"

namespace litespark::cpu {
namespace {

constexpr int64_t kRowsPerBlock = 64;

}  // namespace

void CpuBackend::run(const op::TakeColumns<Tensor>& op) {
  const int64_t element = dtype_bytes(op.x.dtype);
  const int64_t from_row = op.x.columns() * element;
  const int64_t to_row = op.out.columns() * element;
  const auto* from = static_cast<const std::byte*>(op.x.data) + op.first_column * element;
  auto* to = static_cast<std::byte*>(op.out.data);
  parallel_ranges(threads_, op.x.rows(), kRowsPerBlock, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      std::memcpy(to + row * to_row, from + row * from_row, static_cast<size_t>(to_row));
    }
  });
}

void CpuBackend::run(const op::JoinColumns<Tensor>& op) {
  const auto convert = kernel_table(isa_).convert[index_of(DType::kF32)][index_of(op.out.dtype)];
  const int64_t element = dtype_bytes(op.out.dtype);
  const int64_t left = op.left.columns();
  const int64_t right = op.right.columns();
  auto* to = static_cast<std::byte*>(op.out.data);
  parallel_ranges(threads_, op.left.rows(), kRowsPerBlock, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      std::byte* const joined = to + row * (left + right) * element;
      convert(static_cast<const std::byte*>(op.left.data) + row * left * 4, joined, left);
      convert(static_cast<const std::byte*>(op.right.data) + row * right * 4, joined + left * element, right);
    }
  });
}

}  // namespace litespark::cpu
