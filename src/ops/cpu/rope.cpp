// SPDX-License-Identifier: Apache-2.0
// RoPE in place. Angles come from the table alone; a block owns whole tokens.
#include <cstddef>
#include <vector>

#include "core/op/attention.h"
#include "ops/cpu/abs_max.h"
#include "ops/cpu/cpu_backend_impl.h"
#include "ops/cpu/kernel_table.h"
#include "ops/cpu/parallel.h"

namespace litespark::cpu {
namespace {

constexpr int64_t kTokensPerBlock = 64;

/// Rows of the table as floats. A token's row is widened once for all of its heads.
class AngleRows {
 public:
  AngleRows(const Tensor& table, const KernelTable& kernels)
      : table_(table), kernels_(kernels), row_(table.dtype == DType::kF32 ? 0 : static_cast<size_t>(table.columns())) {}

  const float* at(int64_t position) {
    const int64_t size = table_.columns();
    const int64_t first = position * size;
    if (table_.dtype == DType::kF32) return table_.as<float>() + first;
    if (table_.dtype == DType::kBF16) {
      kernels_.convert[1][0](table_.as<bf16>() + first, row_.data(), size);
    } else {
      kernels_.widen(table_.as<fp16>() + first, row_.data(), size);
    }
    return row_.data();
  }

 private:
  const Tensor& table_;
  const KernelTable& kernels_;
  std::vector<float> row_;
};

}  // namespace

void CpuBackend::run(const op::Rope<Tensor>& op) {
  const KernelTable& kernels = kernel_table(isa_);
  const auto rope = kernels.rope[index_of(op.qkv.dtype)];
  const auto* positions = op.positions.as<int32_t>();
  auto* qkv = static_cast<std::byte*>(op.qkv.data);
  const int64_t row_bytes = op.qkv.columns() * dtype_bytes(op.qkv.dtype);
  parallel_ranges(threads_, op.qkv.rows(), kTokensPerBlock, [&](int64_t begin, int64_t end) {
    AngleRows angles(op.table, kernels);
    for (int64_t token = begin; token < end; ++token) {
      rope({.heads = qkv + token * row_bytes,
            .angles = angles.at(positions[token]),
            .num_heads = op.num_rotated_heads,
            .dim = op.head_dim,
            .direction = op.inverse ? -1.0f : 1.0f});
    }
  });
  raise_abs_max(threads_, op.abs_max, op.qkv);
}

}  // namespace litespark::cpu
