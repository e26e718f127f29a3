// SPDX-License-Identifier: Apache-2.0
// dW (+)= dY^T X with kernels of our own. Both factors are copied into panels of 64 columns (no row stride of the
// tensors ever meets the caches); a task is a slice of dY's columns against some of X's panels and owns that piece of
// dW. Its values depend neither on the threads nor on the instruction set's vectors: every element adds its tokens in
// blocks of a fixed length, in order.
#include <omp.h>

#include <algorithm>

#include "ops/cpu/matmul_library.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/scratch.h"
#include "ops/cpu/weight_gradient_kernels.h"

namespace litespark::cpu {
namespace {

/// Slices of dY that a task keeps in the second-level cache, so that a panel of X is fetched once for all of them.
constexpr int64_t kTaskSlices = 4;

struct PanelPlan {
  PanelPlan(int64_t num_tokens, int64_t num_outputs, int64_t num_inputs, const PanelKernels& kernels, int threads)
      : tokens(num_tokens),
        outputs(num_outputs),
        inputs(num_inputs),
        num_slices(ceil_div(outputs, kPanelColumns)),
        num_panels(ceil_div(inputs, kPanelColumns)) {
    // As many tasks for each thread, of slices that differ by one at most.
    const int64_t rounds = ceil_div(num_slices, threads * kTaskSlices);
    num_ranges = std::min(num_slices, threads * rounds);
    range_slices = ceil_div(num_slices, num_ranges);
    // A slice is packed by each of its tasks, so it is shared among several only where threads would stand idle.
    const int64_t groups = std::clamp<int64_t>(ceil_div(2 * threads, num_slices), 1, num_panels);
    task_panels = num_slices < threads ? ceil_div(num_panels, groups) : num_panels;
    num_groups = ceil_div(num_panels, task_panels);
    panel_bytes = round_up(kernels.panel_bytes(std::min(tokens, kernels.stretch_tokens)), kScratchAlignment);
    num_threads = static_cast<int>(std::min<int64_t>(threads, num_ranges * num_groups));
  }

  int64_t bytes() const { return (num_panels + num_threads * range_slices) * panel_bytes; }
  int64_t first_slice(int64_t range) const { return range * num_slices / num_ranges; }

  int64_t tokens, outputs, inputs;
  int64_t num_slices, num_panels;
  int64_t num_ranges = 0, range_slices = 0;  ///< slices of a task, and how many they are at most
  int64_t task_panels = 0, num_groups = 0;
  int64_t panel_bytes = 0;
  int num_threads = 1;
};

/// One stretch of tokens.
struct Stretch {
  const PanelPlan& plan;
  const PanelKernels& kernels;
  std::byte* scratch;
  const std::byte* x;
  const std::byte* dy;
  float* gradient;
  int64_t tokens;
  int64_t value_bytes;
  bool accumulate;

  static int columns_of(int64_t panel, int64_t columns) {
    return static_cast<int>(std::min<int64_t>(kPanelColumns, columns - panel * kPanelColumns));
  }
  std::byte* input_panel(int64_t panel) const { return scratch + panel * plan.panel_bytes; }

  void pack_inputs(int64_t panel, int64_t block) const {
    const int64_t first = block * kernels.block_tokens;
    kernels.pack_inputs({.values = x + (first * plan.inputs + panel * kPanelColumns) * value_bytes,
                         .stride = plan.inputs,
                         .tokens = std::min(kernels.block_tokens, tokens - first),
                         .columns = columns_of(panel, plan.inputs),
                         .panel = input_panel(panel) + kernels.panel_bytes(first)});
  }

  void run_task(int64_t range, int64_t group) const {
    std::byte* const outputs =
        scratch + (plan.num_panels + omp_get_thread_num() * plan.range_slices) * plan.panel_bytes;
    const int64_t first = plan.first_slice(range);
    const int64_t end = plan.first_slice(range + 1);
    for (int64_t slice = first; slice < end; ++slice) {
      kernels.pack_outputs({.values = dy + slice * kPanelColumns * value_bytes,
                            .stride = plan.outputs,
                            .tokens = tokens,
                            .columns = columns_of(slice, plan.outputs),
                            .panel = outputs + (slice - first) * plan.panel_bytes});
    }
    const int64_t last_panel = std::min(plan.num_panels, (group + 1) * plan.task_panels);
    for (int64_t panel = group * plan.task_panels; panel < last_panel; ++panel) {
      for (int64_t slice = first; slice < end; ++slice) {
        multiply(slice, panel, outputs + (slice - first) * plan.panel_bytes);
      }
    }
  }

  void multiply(int64_t slice, int64_t panel, const std::byte* outputs) const {
    for (int64_t first = 0; first < tokens; first += kernels.block_tokens) {
      kernels.multiply({.outputs = outputs + kernels.panel_bytes(first),
                        .inputs = input_panel(panel) + kernels.panel_bytes(first),
                        .tokens = std::min(kernels.block_tokens, tokens - first),
                        .gradient = gradient + (slice * plan.inputs + panel) * kPanelColumns,
                        .stride = plan.inputs,
                        .rows = columns_of(slice, plan.outputs),
                        .columns = columns_of(panel, plan.inputs),
                        .accumulate = accumulate || first > 0});
    }
  }
};

}  // namespace

std::optional<PanelKernels> MatmulLibrary::weight_gradient_kernels(DType dtype) const {
  // Without AVX2 the library's kernels are the better ones.
  if (isa_ == CpuIsa::kGeneric) return std::nullopt;
  if (dtype == DType::kBF16 && isa_ == CpuIsa::kAmx) return panel_kernels_amx();
  if (dtype == DType::kBF16 && native_bf16_) return panel_kernels_avx512bf16();
  return isa_ == CpuIsa::kAvx2 ? panel_kernels_avx2(dtype) : panel_kernels_avx512(dtype);
}

int64_t MatmulLibrary::panel_scratch_bytes(const LinearShape& shape, const PanelKernels& kernels) const {
  return PanelPlan(shape.rows, shape.out_features, shape.in_features, kernels, threads_).bytes();
}

void MatmulLibrary::run_panels(const op::MatmulBackwardWeight<Tensor>& op, const PanelKernels& kernels, float* gradient,
                               std::byte* scratch) const {
  const PanelPlan plan(op.x.rows(), op.dy.columns(), op.x.columns(), kernels, threads_);
  const int64_t value_bytes = dtype_bytes(op.x.dtype);
  for (int64_t first = 0; first < plan.tokens; first += kernels.stretch_tokens) {
    const Stretch stretch{.plan = plan,
                          .kernels = kernels,
                          .scratch = scratch,
                          .x = static_cast<const std::byte*>(op.x.data) + first * plan.inputs * value_bytes,
                          .dy = static_cast<const std::byte*>(op.dy.data) + first * plan.outputs * value_bytes,
                          .gradient = gradient,
                          .tokens = std::min(kernels.stretch_tokens, plan.tokens - first),
                          .value_bytes = value_bytes,
                          .accumulate = op.accumulate || first > 0};
    const int64_t blocks = ceil_div(stretch.tokens, kernels.block_tokens);
    parallel_blocks(threads_, plan.num_panels * blocks,
                    [&](int64_t index) { stretch.pack_inputs(index / blocks, index % blocks); });
    parallel_blocks(plan.num_threads, plan.num_ranges * plan.num_groups,
                    [&](int64_t index) { stretch.run_task(index / plan.num_groups, index % plan.num_groups); });
  }
}

}  // namespace litespark::cpu
