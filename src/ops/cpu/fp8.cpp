// SPDX-License-Identifier: Apache-2.0
// 8-bit floats on the CPU: an emulation in f32, for tests of the training path and for comparing losses. Codes are the
// same as a GPU's; nothing here is made for speed.
#include "core/fp8.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstring>

#include "core/step_state.h"
#include "ops/cpu/abs_max.h"
#include "ops/cpu/cpu_backend_impl.h"
#include "ops/cpu/parallel.h"

namespace litespark::cpu {
namespace {

constexpr int64_t kRowsPerBlock = 64;
constexpr int64_t kColumnsPerBlock = 64;

uint32_t magnitude_bits(float value) {
  return std::bit_cast<uint32_t>(value) & 0x7fffffffu;
}

void raise(float& place, uint32_t bits) {
  std::atomic_ref<uint32_t> shared(reinterpret_cast<uint32_t&>(place));
  uint32_t seen = shared.load();
  while (seen < bits && !shared.compare_exchange_weak(seen, bits)) {
  }
}

template <class T>
void raise_rows(int threads, const Tensor& abs_max, const Tensor& x) {
  const int64_t columns = x.columns();
  const bool by_row = abs_max.num_elements() > 1;
  parallel_ranges(threads, x.rows(), kRowsPerBlock, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      uint32_t largest = 0;
      const T* row = x.as<T>() + r * columns;
      for (int64_t c = 0; c < columns; ++c) largest = std::max(largest, magnitude_bits(load_float(row[c])));
      raise(abs_max.as<float>()[by_row ? r : 0], largest);
    }
  });
}

template <class T>
void raise_columns(int threads, const Tensor& abs_max, const Tensor& x) {
  const int64_t columns = x.columns();
  parallel_ranges(threads, columns, kColumnsPerBlock, [&](int64_t begin, int64_t end) {
    std::array<uint32_t, kColumnsPerBlock> largest{};
    for (int64_t r = 0; r < x.rows(); ++r) {
      const T* row = x.as<T>() + r * columns;
      for (int64_t c = begin; c < end; ++c) {
        uint32_t& seen = largest[static_cast<size_t>(c - begin)];
        seen = std::max(seen, magnitude_bits(load_float(row[c])));
      }
    }
    for (int64_t c = begin; c < end; ++c) raise(abs_max.as<float>()[c], largest[static_cast<size_t>(c - begin)]);
  });
}

/// Writes the scales' inverses; returns how many are of something with Inf or NaN.
int64_t write_scales(const Tensor& scale, const Tensor& abs_max, DType format) {
  int64_t overflows = 0;
  if (!scale.has_value()) return overflows;
  for (int64_t i = 0; i < scale.num_elements(); ++i) {
    const float inverse = fp8_scale(abs_max.as<float>()[i], format).dequantise;
    overflows += inverse != inverse ? 1 : 0;
    scale.as<float>()[i] = inverse;
  }
  return overflows;
}

struct Quantiser {
  const op::QuantizeFp8<Tensor>& op;
  DType format;

  float factor(const Tensor& abs_max, int64_t index) const {
    return fp8_scale(abs_max.as<float>()[abs_max.num_elements() > 1 ? index : 0], format).quantise;
  }
  bool is_flushed(float scaled) const { return scaled != 0 && std::abs(scaled) <= fp8_flushed_below(format); }

  /// Rows [begin, end) of both copies; returns the number of elements flushed to zero.
  template <class T>
  int64_t run(int64_t begin, int64_t end) const {
    const int64_t columns = op.x.columns();
    const bool by_column = op.column_abs_max.has_value();
    int64_t flushed = 0;
    for (int64_t r = begin; r < end; ++r) {
      const float row_factor = op.abs_max.has_value() ? factor(op.abs_max, r) : 1.0f;
      for (int64_t c = 0; c < columns; ++c) {
        const float value = load_float(op.x.as<T>()[r * columns + c]);
        const float by_row = value * row_factor;
        const float transposed = by_column ? value * factor(op.column_abs_max, c) : by_row;
        if (op.q.has_value()) op.q.as<uint8_t>()[r * columns + c] = to_fp8(format, by_row);
        if (op.q_transposed.has_value())
          op.q_transposed.as<uint8_t>()[c * op.x.rows() + r] = to_fp8(format, transposed);
        flushed += is_flushed(op.q.has_value() ? by_row : transposed) ? 1 : 0;
      }
    }
    return flushed;
  }
};

void count(StepState& state, op::Fp8Kind kind, int64_t elements, int64_t flushed) {
  if (kind == op::Fp8Kind::kInput) {
    state.fp8_inputs += elements;
    state.fp8_inputs_flushed += flushed;
  } else if (kind == op::Fp8Kind::kGradient) {
    state.fp8_gradients += elements;
    state.fp8_gradients_flushed += flushed;
  }
}

}  // namespace

void raise_abs_max(int threads, const Tensor& abs_max, const Tensor& x) {
  if (!abs_max.has_value() || x.num_elements() == 0) return;
  visit_float_dtype("abs_max", x.dtype,
                    [&](auto tag) { raise_rows<typename decltype(tag)::type>(threads, abs_max, x); });
}

void CpuBackend::run(const op::Clear<Tensor>& op) {
  if (op.state.has_value() && static_cast<const StepState*>(op.state.data)->skipped != 0) return;
  std::memset(op.x.data, 0, static_cast<size_t>(op.x.bytes()));
}

void CpuBackend::run(const op::AbsMax<Tensor>& op) {
  raise_abs_max(threads_, op.abs_max, op.x);
  if (!op.column_abs_max.has_value()) return;
  visit_float_dtype(op.kName, op.x.dtype,
                    [&](auto tag) { raise_columns<typename decltype(tag)::type>(threads_, op.column_abs_max, op.x); });
}

void CpuBackend::run(const op::QuantizeFp8<Tensor>& op) {
  const DType format = op.q.has_value() ? op.q.dtype : op.q_transposed.dtype;
  std::atomic<int64_t> flushed = 0;
  visit_float_dtype(op.kName, op.x.dtype, [&](auto tag) {
    parallel_ranges(threads_, op.x.rows(), kRowsPerBlock, [&](int64_t begin, int64_t end) {
      flushed += Quantiser{op, format}.run<typename decltype(tag)::type>(begin, end);
    });
  });
  const int64_t overflows =
      write_scales(op.scale, op.abs_max, format) + write_scales(op.column_scale, op.column_abs_max, format);
  if (!op.state.has_value()) return;
  auto& state = *static_cast<StepState*>(op.state.data);
  state.fp8_overflows += overflows;
  count(state, op.kind, op.x.num_elements(), flushed);
}

namespace {

constexpr int64_t kTile = 16;
constexpr int64_t kDepth = 256;

/// One tile of the product, summed over K in order; operands are decoded a stretch of K at a time.
struct ProductTile {
  const op::ScaledMatmul<Tensor>& op;
  int64_t first_row, first_column;
  int64_t rows = std::min(kTile, op.a.rows() - first_row);
  int64_t columns = std::min(kTile, op.b.rows() - first_column);
  float sums[kTile][kTile] = {};
  float a[kTile][kDepth] = {};
  float b[kDepth][kTile] = {};

  static void decode(const Tensor& tensor, int64_t row, int64_t from, int64_t depth, float* out, int64_t stride) {
    const uint8_t* codes = tensor.as<uint8_t>() + row * tensor.columns() + from;
    for (int64_t k = 0; k < depth; ++k) out[k * stride] = fp8_to_float(tensor.dtype, codes[k]);
  }

  void sum() {
    for (int64_t from = 0; from < op.a.columns(); from += kDepth) {
      const int64_t depth = std::min(kDepth, op.a.columns() - from);
      for (int64_t i = 0; i < rows; ++i) decode(op.a, first_row + i, from, depth, a[i], 1);
      for (int64_t j = 0; j < columns; ++j) decode(op.b, first_column + j, from, depth, &b[0][j], kTile);
      for (int64_t i = 0; i < rows; ++i) {
        for (int64_t k = 0; k < depth; ++k) {
          for (int64_t j = 0; j < kTile; ++j) sums[i][j] += a[i][k] * b[k][j];
        }
      }
    }
  }

  template <class T>
  void write() const {
    const auto scale_of = [](const Tensor& scale, int64_t index) {
      return scale.as<float>()[scale.num_elements() > 1 ? index : 0];
    };
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < columns; ++j) {
        const int64_t row = first_row + i;
        const int64_t column = first_column + j;
        T& out = op.out.as<T>()[row * op.b.rows() + column];
        float value = sums[i][j] * (scale_of(op.a_scale, row) * scale_of(op.b_scale, column));
        if (op.bias.has_value()) value += op.bias.as<float>()[column];
        if (op.accumulate) value += load_float(out);
        store_float(out, value);
      }
    }
  }
};

}  // namespace

void CpuBackend::run(const op::ScaledMatmul<Tensor>& op) {
  const int64_t tiles_across = ceil_div(op.b.rows(), kTile);
  visit_float_dtype(op.kName, op.out.dtype, [&](auto tag) {
    parallel_blocks(threads_, ceil_div(op.a.rows(), kTile) * tiles_across, [&](int64_t block) {
      ProductTile tile{
          .op = op, .first_row = block / tiles_across * kTile, .first_column = block % tiles_across * kTile};
      tile.sum();
      tile.write<typename decltype(tag)::type>();
    });
  });
}

}  // namespace litespark::cpu
