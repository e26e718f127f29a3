// SPDX-License-Identifier: Apache-2.0
// dW (+)= dY^T X by the library, where matmul_weight_gradient_panels.cpp has no kernel. A thread owns a slice of dY's
// columns, copies it dense (converting it where need be) and multiplies it by all of X: the slice is read from cache
// many times, and no power-of-two row stride ever meets the library.
#include <omp.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "ops/cpu/kernel_table.h"
#include "ops/cpu/matmul_library.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/scratch.h"

namespace litespark::cpu {
namespace {

/// Tokens summed by one product; a slice of so many rows stays in the second-level cache. Panels add up in order.
constexpr int64_t kPanelTokens = 2048;

/// Elements converted in one piece by one thread.
constexpr int64_t kConvertBlock = 16384;

int64_t slice_columns(int64_t outputs) {
  return std::min<int64_t>(outputs, outputs >= 1024 ? 128 : 64);
}

/// Of the f32 sums that a bf16 gradient is rounded from, at the start of the scratch.
int64_t sum_bytes(int64_t elements) {
  return round_up(elements * 4, kScratchAlignment);
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
  const int64_t sums = shape.gradient == DType::kF32 ? 0 : sum_bytes(shape.out_features * shape.in_features);
  if (const auto kernels = weight_gradient_kernels(shape.compute)) return sums + panel_scratch_bytes(shape, *kernels);
  return sums + plan_slices(shape.rows, shape.out_features, shape.in_features, shape.compute).bytes();
}

void MatmulLibrary::prepare(const op::MatmulBackwardWeight<Tensor>& op) {
  if (op.x.num_elements() == 0 || weight_gradient_kernels(op.x.dtype)) return;
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

/// One panel of tokens of one call.
struct MatmulLibrary::SliceCall {
  const SlicePlan& plan;
  const KernelTable& kernels;
  std::byte* scratch;
  const std::byte* x;   ///< first row of the panel
  const std::byte* dy;  ///< the same
  float* gradient;
  int64_t panel;
  int dtype, element;  ///< indices of the kernel table
  int64_t value_bytes;

  /// X, or its f32 copy in scratch.
  const void* inputs(int threads) const {
    if (!plan.converts) return x;
    const int64_t size = plan.tokens_of(panel) * plan.inputs;
    auto* copy = reinterpret_cast<float*>(scratch);
    parallel_ranges(threads, size, kConvertBlock, [&](int64_t begin, int64_t end) {
      kernels.convert[dtype][0](x + begin * value_bytes, copy + begin, end - begin);
    });
    return copy;
  }

  /// False when the library fails.
  bool run_slice(Onednn& library, Gemm& gemm, int64_t slice, const void* inputs) const {
    const int thread = omp_get_thread_num();
    std::byte* piece = scratch + plan.input_copy_bytes + thread * plan.thread_bytes();
    const std::byte* columns = dy + slice * plan.width * value_bytes;
    const int64_t width = plan.width_of(slice);
    const int64_t element_bytes = dtype_bytes(plan.element);
    for (int64_t token = 0; token < plan.tokens_of(panel); ++token) {
      kernels.convert[dtype][element](columns + token * plan.outputs * value_bytes,
                                      piece + token * width * element_bytes, width);
    }
    return library.execute(gemm, {.source = piece,
                                  .weights = inputs,
                                  .destination = gradient + slice * plan.width * plan.inputs,
                                  .scratch = piece + plan.slice_bytes,
                                  .slot = thread});
  }
};

void MatmulLibrary::run_slices(const op::MatmulBackwardWeight<Tensor>& op, float* gradient, std::byte* scratch) {
  prepare(op);
  const SlicePlan plan = plan_slices(op.x.rows(), op.dy.columns(), op.x.columns(), op.x.dtype);
  const int64_t value_bytes = dtype_bytes(op.x.dtype);
  std::atomic<bool> failed = false;
  for (int64_t panel = 0; panel < plan.num_panels; ++panel) {
    const int64_t first = panel * plan.panel_tokens;
    const SliceCall call{.plan = plan,
                         .kernels = kernel_table(isa_),
                         .scratch = scratch,
                         .x = static_cast<const std::byte*>(op.x.data) + first * plan.inputs * value_bytes,
                         .dy = static_cast<const std::byte*>(op.dy.data) + first * plan.outputs * value_bytes,
                         .gradient = gradient,
                         .panel = panel,
                         .dtype = index_of(op.x.dtype),
                         .element = index_of(plan.element),
                         .value_bytes = value_bytes};
    const void* inputs = call.inputs(threads_);
    Gemm& full = onednn_.gemm(plan.problem(panel, 0, op.accumulate));
    Gemm& last = onednn_.gemm(plan.problem(panel, plan.num_slices - 1, op.accumulate));
    parallel_blocks(plan.num_threads, plan.num_slices, [&](int64_t slice) {
      if (!call.run_slice(onednn_, slice + 1 == plan.num_slices ? last : full, slice, inputs)) failed = true;
    });
  }
  if (failed) throw InternalError("matmul_backward_weight", "oneDNN failed to run a product");
}

void MatmulLibrary::run(const op::MatmulBackwardWeight<Tensor>& op) {
  const int64_t tokens = op.x.rows();
  const int64_t size = op.dweight.num_elements();
  const bool is_rounded = op.dweight.dtype != DType::kF32;
  if (tokens == 0) {
    if (!op.accumulate) std::memset(op.dweight.data, 0, static_cast<size_t>(op.dweight.bytes()));
    return;
  }
  const LinearShape shape{.rows = tokens,
                          .in_features = op.x.columns(),
                          .out_features = op.dy.columns(),
                          .compute = op.x.dtype,
                          .gradient = op.dweight.dtype};
  const Scratch scratch("matmul_backward_weight", op.scratch, matmul_backward_weight_scratch_bytes(shape));
  float* gradient = is_rounded ? reinterpret_cast<float*>(scratch.data()) : op.dweight.as<float>();
  std::byte* rest = scratch.data() + (is_rounded ? sum_bytes(size) : 0);
  if (const auto kernels = weight_gradient_kernels(op.x.dtype)) {
    run_panels(op, *kernels, gradient, rest);
  } else {
    run_slices(op, gradient, rest);
  }
  if (!is_rounded) return;
  auto* rounded = op.dweight.as<bf16>();
  parallel_ranges(threads_, size, kConvertBlock, [&](int64_t begin, int64_t end) {
    kernel_table(isa_).convert[0][1](gradient + begin, rounded + begin, end - begin);
  });
}

}  // namespace litespark::cpu
