// SPDX-License-Identifier: Apache-2.0
// Bias gradient: column sums, in blocks of a fixed number of rows, then over the blocks in order.
#include "ops/cpu/column_sum.h"
#include "ops/cpu/cpu_backend_impl.h"
#include "ops/cpu/kernel_table.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/rows.h"

namespace litespark::cpu {

void CpuBackend::run(const op::BiasBackward<Tensor>& op) {
  const int64_t columns = op.dy.columns();
  float* partials = op.partials.as<float>();
  const auto add = kernel_table(isa_).add[index_of(op.dy.dtype)];
  const Rows dy(op.dy);
  parallel_ranges(threads_, op.dy.rows(), op::kBiasRowsPerBlock, [&](int64_t begin, int64_t end) {
    float* partial = partials + begin / op::kBiasRowsPerBlock * columns;
    std::fill(partial, partial + columns, 0.0f);
    for (int64_t row = begin; row < end; ++row) add(partial, dy.row(row), columns);
  });
  sum_columns(threads_, {.out = op.dbias.as<float>(),
                         .partials = partials,
                         .num_rows = ceil_div(op.dy.rows(), op::kBiasRowsPerBlock),
                         .num_columns = columns,
                         .stride = columns,
                         .accumulate = op.accumulate});
}

}  // namespace litespark::cpu
