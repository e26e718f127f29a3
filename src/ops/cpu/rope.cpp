// SPDX-License-Identifier: Apache-2.0
// RoPE in place. Angles come from the table alone; a block owns whole tokens.
#include <cstddef>

#include "core/op/attention.h"
#include "ops/cpu/cpu_backend_impl.h"
#include "ops/cpu/kernel_table.h"
#include "ops/cpu/parallel.h"

namespace litespark::cpu {
namespace {

constexpr int64_t kTokensPerBlock = 64;

}  // namespace

void CpuBackend::run(const op::Rope<Tensor>& op) {
  const auto rope = kernel_table(isa_).rope[index_of(op.qkv.dtype)];
  const auto* table = op.table.as<float>();
  const auto* positions = op.positions.as<int32_t>();
  auto* qkv = static_cast<std::byte*>(op.qkv.data);
  const int64_t row_bytes = op.qkv.columns() * dtype_bytes(op.qkv.dtype);
  parallel_ranges(threads_, op.qkv.rows(), kTokensPerBlock, [&](int64_t begin, int64_t end) {
    for (int64_t token = begin; token < end; ++token) {
      rope({.heads = qkv + token * row_bytes,
            .angles = table + int64_t{positions[token]} * op.head_dim,
            .num_heads = op.num_rotated_heads,
            .dim = op.head_dim,
            .direction = op.inverse ? -1.0f : 1.0f});
    }
  });
}

}  // namespace litespark::cpu
