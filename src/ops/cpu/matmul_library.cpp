// SPDX-License-Identifier: Apache-2.0
// Products of rows with a shared weight (forward, input gradient) and weight packing; matmul_weight_gradient.cpp has
// the third product.
#include "ops/cpu/matmul_library.h"

#include <omp.h>

#include <algorithm>
#include <atomic>

#include "ops/cpu/join_floats.h"
#include "ops/cpu/kernel_table.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/scratch.h"

namespace litespark::cpu {
namespace {

/// Below this many rows one product of all threads is faster than blocks of rows: generation, short tails.
constexpr int64_t kFewRows = 128;
/// f32 copies of a block's rows should stay in the second-level cache.
constexpr int64_t kBlockCopyBytes = int64_t{4} << 20;

int64_t rows_per_block(const RowProduct& product, bool converts) {
  if (product.rows < kFewRows) return product.rows;
  int64_t rows = product.rows >= 2048 ? 256 : product.rows >= 512 ? 128 : 64;
  while (converts && rows > 64 && rows * (product.n + product.k) * 4 > kBlockCopyBytes) rows /= 2;
  return rows;
}

/// Elements converted in one piece by one thread.
constexpr int64_t kConvertBlock = 16384;

void round_values_to_bf16(const KernelTable& kernels, float* values, int64_t count, int threads) {
  parallel_ranges(threads, count, kConvertBlock, [&](int64_t begin, int64_t end) {
    bf16 rounded[256];
    for (int64_t i = begin; i < end; i += 256) {
      const int64_t size = std::min<int64_t>(256, end - i);
      kernels.convert[0][1](values + i, rounded, size);
      kernels.convert[1][0](rounded, values + i, size);
    }
  });
}

/// The weight itself, or what its halves give, in the op's scratch.
const float* f32_weight(const op::PackWeight<Tensor>& op, const KernelTable& kernels, int threads) {
  if (op.weight.dtype == DType::kF32) return op.weight.as<float>();
  auto* joined = op.scratch.as<float>();
  const auto* weight = op.weight.as<bf16>();
  const auto* remainder = op.remainder.has_value() ? op.remainder.as<uint16_t>() : nullptr;
  parallel_ranges(threads, op.weight.num_elements(), kConvertBlock, [&](int64_t begin, int64_t end) {
    if (remainder != nullptr) {
      join_floats(weight + begin, remainder + begin, joined + begin, end - begin);
    } else {
      kernels.convert[1][0](weight + begin, joined + begin, end - begin);
    }
  });
  return joined;
}

}  // namespace

/// What one row product needs: the primitives of a full and of the last block, and the pieces of scratch.
struct MatmulLibrary::RowPlan {
  GemmProblem block, last;
  int64_t block_rows = 0, num_blocks = 0, last_rows = 0;
  bool converts = false;              ///< source (and weights) go through f32 copies
  bool converts_destination = false;  ///< and so does the result
  int64_t weight_copy_bytes = 0, source_copy_bytes = 0, destination_copy_bytes = 0, library_bytes = 0;
  int num_threads = 1;

  int64_t thread_bytes() const { return source_copy_bytes + destination_copy_bytes + library_bytes; }
  int64_t bytes() const { return weight_copy_bytes + num_threads * thread_bytes(); }
};

MatmulLibrary::MatmulLibrary(int threads, CpuIsa isa)
    : threads_(threads),
      isa_(isa),
      onednn_(threads),
      native_bf16_(isa >= CpuIsa::kAvx512Bf16 && onednn_.has_fast_bf16()) {}

DType MatmulLibrary::element_type(DType compute) const {
  return compute == DType::kBF16 && native_bf16_ ? DType::kBF16 : DType::kF32;
}

bool MatmulLibrary::packs_weights(DType compute) const {
  // Without blocked layouts a packed f32 copy is the weight once more; a converted copy of bf16 weights saves the
  // conversion at each use.
  return compute == DType::kBF16 || onednn_.has_blocked_f32();
}

WeightLayout MatmulLibrary::packed_layout(DType compute, op::PackForm form) const {
  if (element_type(compute) == DType::kBF16 || onednn_.has_blocked_f32()) return WeightLayout::kPacked;
  return form == op::PackForm::kForward ? WeightLayout::kTransposed : WeightLayout::kPlain;
}

RowProduct MatmulLibrary::forward_product(const LinearShape& shape) const {
  return {
      .rows = shape.rows,
      .n = shape.out_features,
      .k = shape.in_features,
      .source = shape.compute,
      .destination = shape.compute,
      .layout = shape.weights_packed ? packed_layout(shape.compute, op::PackForm::kForward) : WeightLayout::kTransposed,
      .weights_packed = shape.weights_packed,
      .has_bias = shape.has_bias};
}

RowProduct MatmulLibrary::backward_product(const LinearShape& shape) const {
  return {.rows = shape.rows,
          .n = shape.in_features,
          .k = shape.out_features,
          .source = shape.compute,
          .destination = shape.compute,
          .layout = shape.weights_packed ? packed_layout(shape.compute, op::PackForm::kBackward) : WeightLayout::kPlain,
          .weights_packed = shape.weights_packed};
}

RowProduct MatmulLibrary::product_of(const op::MatmulForward<Tensor>& op) const {
  RowProduct product = forward_product({.rows = op.x.num_elements() / op.in_features,
                                        .in_features = op.in_features,
                                        .out_features = op.out_features,
                                        .compute = op.x.dtype,
                                        .has_bias = op.bias.has_value(),
                                        .weights_packed = op.packed.has_value()});
  product.destination = op.y.dtype;
  return product;
}

RowProduct MatmulLibrary::product_of(const op::MatmulBackwardInput<Tensor>& op) const {
  RowProduct product = backward_product({.rows = op.dy.num_elements() / op.out_features,
                                         .in_features = op.in_features,
                                         .out_features = op.out_features,
                                         .compute = op.dy.dtype,
                                         .weights_packed = op.packed.has_value()});
  product.destination = op.dx.dtype;
  product.accumulate = op.accumulate;
  return product;
}

MatmulLibrary::RowPlan MatmulLibrary::plan_rows(const RowProduct& product) const {
  RowPlan plan;
  plan.converts = product.source == DType::kBF16 && !native_bf16_;
  plan.converts_destination = plan.converts && product.destination == DType::kBF16;
  plan.block_rows = rows_per_block(product, plan.converts);
  const bool few = product.rows < kFewRows;
  plan.num_blocks = ceil_div(product.rows, plan.block_rows);
  plan.last_rows = product.rows - (plan.num_blocks - 1) * plan.block_rows;
  plan.num_threads = few ? 1 : static_cast<int>(std::min<int64_t>(threads_, plan.num_blocks));
  const DType element = element_type(product.source);
  plan.block = {.m = plan.block_rows,
                .n = product.n,
                .k = product.k,
                .source = element,
                .weights = element,
                .destination = plan.converts ? DType::kF32 : product.destination,
                .layout = product.layout,
                .has_bias = product.has_bias,
                .accumulate = product.accumulate,
                .sequential = !few};
  plan.last = plan.block;
  plan.last.m = plan.last_rows;
  const auto aligned = [](int64_t bytes) { return round_up(bytes, kScratchAlignment); };
  if (plan.converts) {
    plan.source_copy_bytes = aligned(plan.block_rows * product.k * 4);
    if (!product.weights_packed) plan.weight_copy_bytes = aligned(product.n * product.k * 4);
  }
  if (plan.converts_destination) plan.destination_copy_bytes = aligned(plan.block_rows * product.n * 4);
  plan.library_bytes = aligned(std::max(onednn_.scratch_bytes(plan.block), onednn_.scratch_bytes(plan.last)));
  return plan;
}

void MatmulLibrary::prepare_rows(const RowProduct& product, const void* packed) {
  if (product.rows == 0) return;
  const RowPlan plan = plan_rows(product);
  for (const GemmProblem& problem : {plan.block, plan.last}) {
    Gemm& gemm = onednn_.gemm(problem);
    if (product.layout == WeightLayout::kPacked) onednn_.bind_packed(gemm, packed);
  }
}

/// One call: where its operands and pieces of scratch lie.
struct MatmulLibrary::RowCall {
  const RowProduct& product;
  const RowPlan& plan;
  const GemmPointers& pointers;
  const KernelTable& kernels;
  std::byte* scratch;
  Gemm& block;
  Gemm& last;

  /// bf16 weights that are not packed, as f32 in scratch; else the weights themselves.
  const void* weights(int threads) const {
    if (plan.weight_copy_bytes == 0) return pointers.weights;
    const auto* from = static_cast<const bf16*>(pointers.weights);
    auto* copy = reinterpret_cast<float*>(scratch);
    parallel_ranges(threads, product.n * product.k, kConvertBlock, [&](int64_t begin, int64_t end) {
      kernels.convert[1][0](from + begin, copy + begin, end - begin);
    });
    return copy;
  }

  /// False when the library fails.
  bool run_block(Onednn& library, int64_t index, int thread, const void* weights) const {
    const int64_t rows = index + 1 == plan.num_blocks ? plan.last_rows : plan.block_rows;
    const int64_t first = index * plan.block_rows;
    std::byte* piece = scratch + plan.weight_copy_bytes + thread * plan.thread_bytes();
    const auto* source =
        static_cast<const std::byte*>(pointers.source) + first * product.k * dtype_bytes(product.source);
    auto* destination =
        static_cast<std::byte*>(pointers.destination) + first * product.n * dtype_bytes(product.destination);
    GemmPointers call{.source = source,
                      .weights = weights,
                      .destination = destination,
                      .bias = pointers.bias,
                      .scratch = piece + plan.source_copy_bytes + plan.destination_copy_bytes,
                      .slot = thread};
    if (plan.converts) {
      kernels.convert[1][0](source, piece, rows * product.k);
      call.source = piece;
    }
    if (plan.converts_destination) {
      call.destination = piece + plan.source_copy_bytes;
      if (product.accumulate) kernels.convert[1][0](destination, call.destination, rows * product.n);
    }
    const bool done = library.execute(rows == plan.block_rows ? block : last, call);
    if (plan.converts_destination) kernels.convert[0][1](call.destination, destination, rows * product.n);
    return done;
  }
};

void MatmulLibrary::run_rows(const RowProduct& product, const GemmPointers& pointers, const Tensor& scratch_tensor) {
  if (product.rows == 0) return;
  prepare_rows(product, pointers.weights);
  const RowPlan plan = plan_rows(product);
  const Scratch scratch("matmul", scratch_tensor, plan.bytes());
  const RowCall call{.product = product,
                     .plan = plan,
                     .pointers = pointers,
                     .kernels = kernel_table(isa_),
                     .scratch = scratch.data(),
                     .block = onednn_.gemm(plan.block),
                     .last = onednn_.gemm(plan.last)};
  const void* weights = call.weights(threads_);
  std::atomic<bool> failed = false;
  if (plan.block.sequential) {
    parallel_blocks(plan.num_threads, plan.num_blocks, [&](int64_t index) {
      if (!call.run_block(onednn_, index, omp_get_thread_num(), weights)) failed = true;
    });
  } else {
    failed = !call.run_block(onednn_, 0, 0, weights);
  }
  if (failed) throw InternalError("matmul", "oneDNN failed to run a product");
}

int64_t MatmulLibrary::row_scratch_bytes(RowProduct product) const {
  if (product.rows == 0) return 0;
  int64_t bytes = plan_rows(product).bytes();
  product.destination = DType::kF32;  // logits may be kept in f32
  bytes = std::max(bytes, plan_rows(product).bytes());
  return bytes;
}

int64_t MatmulLibrary::matmul_forward_scratch_bytes(const LinearShape& shape) const {
  return row_scratch_bytes(forward_product(shape));
}

int64_t MatmulLibrary::matmul_backward_input_scratch_bytes(const LinearShape& shape) const {
  RowProduct product = backward_product(shape);
  const int64_t overwriting = row_scratch_bytes(product);
  product.accumulate = true;
  return std::max(overwriting, row_scratch_bytes(product));
}

int64_t MatmulLibrary::packed_bytes(const LinearShape& shape, op::PackForm form) const {
  if (packed_layout(shape.compute, form) != WeightLayout::kPacked) return shape.in_features * shape.out_features * 4;
  const bool forward = form == op::PackForm::kForward;
  return onednn_.packed_bytes(forward ? shape.in_features : shape.out_features,
                              forward ? shape.out_features : shape.in_features, element_type(shape.compute));
}

void MatmulLibrary::prepare(const op::MatmulForward<Tensor>& op) {
  prepare_rows(product_of(op), op.packed.data);
}

void MatmulLibrary::prepare(const op::MatmulBackwardInput<Tensor>& op) {
  prepare_rows(product_of(op), op.packed.data);
}

void MatmulLibrary::run(const op::MatmulForward<Tensor>& op) {
  run_rows(product_of(op),
           {.source = op.x.data,
            .weights = op.packed.has_value() ? op.packed.data : op.weight.data,
            .destination = op.y.data,
            .bias = op.bias.data},
           op.scratch);
}

void MatmulLibrary::run(const op::MatmulBackwardInput<Tensor>& op) {
  run_rows(product_of(op),
           {.source = op.dy.data,
            .weights = op.packed.has_value() ? op.packed.data : op.weight.data,
            .destination = op.dx.data},
           op.scratch);
}

/// One packed copy: B [k, n] of the product, and how the weight lies.
struct MatmulLibrary::PackPlan {
  int64_t k = 0, n = 0;
  DType compute = DType::kF32;
  WeightLayout layout = WeightLayout::kPlain;  ///< of the weight
  bool is_reordered = false;                   ///< else the rows are copied as they are
  bool is_in_blocks = false;                   ///< by our own kernels, else by the library
};

MatmulLibrary::PackPlan MatmulLibrary::plan_pack(const op::PackWeight<Tensor>& op) const {
  const bool forward = op.form == op::PackForm::kForward;
  PackPlan plan{.k = forward ? op.weight.columns() : op.weight.rows(),
                .n = forward ? op.weight.rows() : op.weight.columns(),
                .compute = op.compute_bf16 ? DType::kBF16 : DType::kF32,
                .layout = forward ? WeightLayout::kTransposed : WeightLayout::kPlain};
  plan.is_reordered = packed_layout(plan.compute, op.form) == WeightLayout::kPacked;
  plan.is_in_blocks = plan.is_reordered && onednn_.is_packed_in_blocks(plan.k, plan.n, element_type(plan.compute));
  return plan;
}

void MatmulLibrary::prepare(const op::PackWeight<Tensor>& op) {
  const PackPlan plan = plan_pack(op);
  if (!plan.is_reordered || plan.is_in_blocks) return;
  const auto* weight = static_cast<const float*>(op.weight.dtype == DType::kF32 ? op.weight.data : op.scratch.data);
  onednn_.prepare_pack(plan.k, plan.n, element_type(plan.compute), plan.layout, weight, op.packed.data);
}

void MatmulLibrary::pack_blocks(const PackPlan& plan, const float* weight, void* packed) const {
  const DType element = element_type(plan.compute);
  const bool is_transposed = plan.layout == WeightLayout::kTransposed;
  const auto pack = kernel_table(isa_).pack[is_transposed ? 1 : 0][index_of(element)];
  const int64_t block_rows = element == DType::kBF16 ? 2 * kPackSteps : kPackSteps;
  const int64_t num_blocks = ceil_div(plan.k, block_rows);
  const int64_t block_bytes = block_rows * kPackColumns * dtype_bytes(element);
  const int64_t row_stride = is_transposed ? 1 : plan.n;
  const int64_t column_stride = is_transposed ? plan.k : 1;
  const auto pack_block = [&](int64_t row, int64_t column) {
    const int64_t index = column / kPackColumns * num_blocks + row / block_rows;
    pack({.from = weight + row * row_stride + column * column_stride,
          .stride = is_transposed ? column_stride : row_stride,
          .rows = static_cast<int>(std::min(block_rows, plan.k - row)),
          .columns = static_cast<int>(std::min<int64_t>(kPackColumns, plan.n - column)),
          .to = static_cast<std::byte*>(packed) + index * block_bytes});
  };
  // Along the weight's own rows, whichever way they lie.
  if (is_transposed) {
    parallel_blocks(threads_, ceil_div(plan.n, kPackColumns), [&](int64_t index) {
      for (int64_t row = 0; row < plan.k; row += block_rows) pack_block(row, index * kPackColumns);
    });
  } else {
    parallel_blocks(threads_, num_blocks, [&](int64_t index) {
      for (int64_t column = 0; column < plan.n; column += kPackColumns) pack_block(index * block_rows, column);
    });
  }
}

void MatmulLibrary::run(const op::PackWeight<Tensor>& op) {
  const PackPlan plan = plan_pack(op);
  const LinearShape shape{
      .in_features = op.weight.columns(), .out_features = op.weight.rows(), .compute = plan.compute};
  const int64_t bytes = packed_bytes(shape, op.form);
  if (op.packed.bytes() < bytes) throw InternalError("pack_weight", "packed copy too small", op.packed.bytes(), bytes);
  const float* weight = f32_weight(op, kernel_table(isa_), threads_);
  if (plan.is_in_blocks) {
    pack_blocks(plan, weight, op.packed.data);
  } else if (plan.is_reordered) {
    onednn_.pack(plan.k, plan.n, element_type(plan.compute), plan.layout, weight, op.packed.data);
  } else {
    auto* copy = static_cast<float*>(op.packed.data);
    parallel_ranges(threads_, bytes / 4, kConvertBlock,
                    [&](int64_t begin, int64_t end) { std::copy(weight + begin, weight + end, copy + begin); });
  }
  if (op.compute_bf16 && !native_bf16_) {
    round_values_to_bf16(kernel_table(isa_), static_cast<float*>(op.packed.data), bytes / 4, threads_);
  }
}

void MatmulLibraryDeleter::operator()(MatmulLibrary* library) const {
  delete library;
}

std::unique_ptr<MatmulLibrary, MatmulLibraryDeleter> make_matmul_library(int threads, CpuIsa isa) {
  return std::unique_ptr<MatmulLibrary, MatmulLibraryDeleter>(new MatmulLibrary(threads, isa));
}

}  // namespace litespark::cpu
