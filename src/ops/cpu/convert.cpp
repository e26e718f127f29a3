// SPDX-License-Identifier: Apache-2.0
// Conversion between f32 and bf16, or a plain copy.
#include "ops/cpu/cpu_backend_impl.h"
#include "ops/cpu/parallel.h"

namespace litespark::cpu {
namespace {

constexpr int64_t kElementsPerBlock = 16384;

}  // namespace

void CpuBackend::run(const op::Convert<Tensor>& op) {
  visit_float_dtype(op.kName, op.x.dtype, [&](auto in_tag) {
    visit_float_dtype(op.kName, op.out.dtype, [&](auto out_tag) {
      const auto* x = op.x.as<typename decltype(in_tag)::type>();
      auto* out = op.out.as<typename decltype(out_tag)::type>();
      parallel_ranges(threads_, op.x.num_elements(), kElementsPerBlock, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) store_float(out[i], load_float(x[i]));
      });
    });
  });
}

}  // namespace litespark::cpu
