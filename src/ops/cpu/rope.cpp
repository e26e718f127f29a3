// SPDX-License-Identifier: Apache-2.0
// RoPE in place. Angles come from the table alone; a thread owns whole tokens.
#include "core/op/attention.h"
#include "ops/cpu/cpu_backend_impl.h"

namespace litespark::cpu {
namespace {

template <class Value>
void rotate_head(Value* __restrict head, const float* __restrict cosines, const float* __restrict sines, int half,
                 float direction) {
  for (int i = 0; i < half; ++i) {
    const float first = load_float(head[i]);
    const float second = load_float(head[i + half]);
    const float sine = direction * sines[i];
    store_float(head[i], first * cosines[i] - second * sine);
    store_float(head[i + half], second * cosines[i] + first * sine);
  }
}

}  // namespace

void CpuBackend::run(const op::Rope<Tensor>& op) {
  const int64_t num_tokens = op.qkv.rows();
  const int half = op.head_dim / 2;
  const float direction = op.inverse ? -1.0f : 1.0f;
  const auto* table = op.table.as<float>();
  const auto* positions = op.positions.as<int32_t>();
  visit_float_dtype("rope", op.qkv.dtype, [&](auto tag) {
    using Value = typename decltype(tag)::type;
    auto* qkv = op.qkv.as<Value>();
#pragma omp parallel for schedule(static) num_threads(threads_)
    for (int64_t token = 0; token < num_tokens; ++token) {
      const float* cosines = table + int64_t{positions[token]} * op.head_dim;
      Value* row = qkv + token * op.num_heads_total * op.head_dim;
      for (int head = 0; head < op.num_rotated_heads; ++head) {
        rotate_head(row + head * op.head_dim, cosines, cosines + half, half, direction);
      }
    }
  });
}

}  // namespace litespark::cpu
