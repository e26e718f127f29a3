// SPDX-License-Identifier: Apache-2.0
// dW (+)= dY^T X. A thread owns a slice of dY's columns, copies it dense (converting it where need be) and multiplies
// it by all of X: the slice is read from cache many times, and no power-of-two row stride ever meets the library.
#include <omp.h>

#include <algorithm>
#include <atomic>

#include "ops/cpu/convert_rows.h"
#include "ops/cpu/matmul_library.h"
#include "ops/cpu/scratch.h"

namespace litespark::cpu {
namespace {

/// Tokens summed by one product; a slice of so many rows stays in the second-level cache. Panels add up in order.
constexpr int64_t kPanelTokens = 2048;

int64_t slice_columns(int64_t outputs) {
  return std::min<int64_t>(outputs, outputs >= 1024 ? 128 : 64);
}

}  // namespace

struct MatmulLibrary::SlicePlan {
  int64_t tokens = 0, outputs = 0, inputs = 0;
  int64_t panel_tokens = 0, num_panels = 0, last_tokens = 0;
  int64_t width = 0, num_slices = 0, last_width = 0;
  DType element = DType::kF32;
  bool converts = false;
  int64_t input_copy_bytes = 0, slice_bytes = 0, library_bytes = 0;
  int num_threads = 1;

  int64_t thread_bytes() const { return slice_bytes + library_bytes; }
  int64_t bytes() const { return input_copy_bytes + num_threads * thread_bytes(); }
  int64_t tokens_of(int64_t panel) const { return panel + 1 == num_panels ? last_tokens : panel_tokens; }
  int64_t width_of(int64_t slice) const { return slice + 1 == num_slices ? last_width : width; }

  GemmProblem problem(int64_t panel, int64_t slice, bool accumulate) const {
    return {.m = width_of(slice),
            .n = inputs,
            .k = tokens_of(panel),
            .source = element,
            .weights = element,
            .destination = DType::kF32,
            .layout = WeightLayout::kPlain,
            .source_transposed = true,
            .accumulate = accumulate || panel > 0,
            .sequential = true};
  }
};

MatmulLibrary::SlicePlan MatmulLibrary::plan_slices(int64_t tokens, int64_t outputs, int64_t inputs,
                                                    DType dtype) const {
  SlicePlan plan{.tokens = tokens, .outputs = outputs, .inputs = inputs};
  plan.panel_tokens = std::min(tokens, kPanelTokens);
  plan.num_panels = ceil_div(tokens, plan.panel_tokens);
  plan.last_tokens = tokens - (plan.num_panels - 1) * plan.panel_tokens;
  plan.width = slice_columns(outputs);
  plan.num_slices = ceil_div(outputs, plan.width);
  plan.last_width = outputs - (plan.num_slices - 1) * plan.width;
  plan.element = element_type(dtype);
  plan.converts = plan.element != dtype;
  plan.num_threads = static_cast<int>(std::min<int64_t>(threads_, plan.num_slices));
  const auto aligned = [](int64_t bytes) { return round_up(bytes, kScratchAlignment); };
  if (plan.converts) plan.input_copy_bytes = aligned(plan.panel_tokens * inputs * 4);
  plan.slice_bytes = aligned(plan.panel_tokens * plan.width * dtype_bytes(plan.element));
  for (const int64_t panel : {int64_t{0}, plan.num_panels - 1}) {
    for (const int64_t slice : {int64_t{0}, plan.num_slices - 1}) {
      for (const bool accumulate : {false, true}) {
        const int64_t bytes = onednn_.scratch_bytes(plan.problem(panel, slice, accumulate));
        plan.library_bytes = std::max(plan.library_bytes, aligned(bytes));
      }
    }
  }
  return plan;
}

int64_t MatmulLibrary::matmul_backward_weight_scratch_bytes(const LinearShape& shape) const {
  if (shape.rows == 0) return 0;
  return plan_slices(shape.rows, shape.out_features, shape.in_features, shape.compute).bytes();
}

void MatmulLibrary::prepare(const op::MatmulBackwardWeight<Tensor>& op) {
  if (op.x.num_elements() == 0) return;
  const SlicePlan plan = plan_slices(op.x.rows(), op.dy.columns(), op.x.columns(), op.x.dtype);
  for (const int64_t panel : {int64_t{0}, plan.num_panels - 1}) {
    for (const int64_t slice : {int64_t{0}, plan.num_slices - 1}) {
      onednn_.gemm(plan.problem(panel, slice, op.accumulate));
    }
  }
  if (plan.num_panels > 2) {
    for (const int64_t slice : {int64_t{0}, plan.num_slices - 1}) onednn_.gemm(plan.problem(1, slice, true));
  }
}

void MatmulLibrary::run(const op::MatmulBackwardWeight<Tensor>& op) {
  const int64_t tokens = op.x.rows();
  auto* gradient = op.dweight.as<float>();
  if (tokens == 0) {
    if (!op.accumulate) std::fill_n(gradient, op.dweight.num_elements(), 0.0f);
    return;
  }
  prepare(op);
  const SlicePlan plan = plan_slices(tokens, op.dy.columns(), op.x.columns(), op.x.dtype);
  const Scratch scratch("matmul_backward_weight", op.scratch, plan.bytes());
  std::atomic<bool> failed = false;

  visit_float_dtype("matmul_backward_weight", op.x.dtype, [&](auto tag) {
    using Value = typename decltype(tag)::type;
    const auto* x = op.x.as<Value>();
    const auto* dy = op.dy.as<Value>();
    const auto run_slice = [&](int64_t panel, int64_t slice, const void* inputs, Gemm& gemm) {
      const int thread = omp_get_thread_num();
      std::byte* piece = scratch.data() + plan.input_copy_bytes + thread * plan.thread_bytes();
      const Value* columns = dy + panel * plan.panel_tokens * plan.outputs + slice * plan.width;
      if (plan.converts) {
        gather_columns(columns, plan.outputs, plan.tokens_of(panel), plan.width_of(slice),
                       reinterpret_cast<float*>(piece));
      } else {
        gather_columns(columns, plan.outputs, plan.tokens_of(panel), plan.width_of(slice),
                       reinterpret_cast<Value*>(piece));
      }
      const bool done = onednn_.execute(gemm, {.source = piece,
                                               .weights = inputs,
                                               .destination = gradient + slice * plan.width * plan.inputs,
                                               .scratch = piece + plan.slice_bytes,
                                               .slot = thread});
      if (!done) failed = true;
    };
    for (int64_t panel = 0; panel < plan.num_panels; ++panel) {
      const Value* panel_x = x + panel * plan.panel_tokens * plan.inputs;
      const void* inputs = panel_x;
      if (plan.converts) {
        auto* copy = reinterpret_cast<float*>(scratch.data());
#pragma omp parallel for schedule(static) num_threads(threads_)
        for (int64_t row = 0; row < plan.tokens_of(panel); ++row) {
          convert_values(panel_x + row * plan.inputs, copy + row * plan.inputs, plan.inputs);
        }
        inputs = copy;
      }
      Gemm& full = onednn_.gemm(plan.problem(panel, 0, op.accumulate));
      Gemm& last = onednn_.gemm(plan.problem(panel, plan.num_slices - 1, op.accumulate));
#pragma omp parallel for schedule(static) num_threads(plan.num_threads)
      for (int64_t slice = 0; slice < plan.num_slices; ++slice) {
        run_slice(panel, slice, inputs, slice + 1 == plan.num_slices ? last : full);
      }
    }
  });
  if (failed) throw InternalError("matmul_backward_weight", "oneDNN failed to run a product");
}

}  // namespace litespark::cpu
