// SPDX-License-Identifier: Apache-2.0
// Attention's forward on 8-bit floats on the CPU: an emulation in f32, for tests of the training path and for comparing
// losses. Copies are the same as a GPU's; a GPU's probabilities are relative to an earlier maximum, where that is not
// much smaller, and so are rounded elsewhere. Nothing here is made for speed.
#include "core/op/attention_fp8.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <vector>

#include "core/fp8.h"
#include "core/step_state.h"
#include "ops/cpu/abs_max.h"
#include "ops/cpu/attention_documents.h"
#include "ops/cpu/cpu_backend_impl.h"

namespace litespark::cpu {
namespace {

constexpr int64_t kRowsPerBlock = 64;

/// The value of every code.
const std::array<float, 256>& e4m3_values() {
  static const std::array<float, 256> values = [] {
    std::array<float, 256> result{};
    for (size_t code = 0; code < result.size(); ++code) {
      result[code] = fp8_to_float(DType::kE4M3, static_cast<uint8_t>(code));
    }
    return result;
  }();
  return values;
}

/// Rows [begin, end) of both copies; returns the number of elements flushed to zero.
template <class T>
int64_t quantize_rows(const op::QuantizeQkv<Tensor>& op, float factor, int64_t begin, int64_t end) {
  const int64_t columns = op.qkv.columns();
  const int64_t row_features = op.queries_keys.columns();
  const int64_t value_columns = op.values.columns();
  int64_t flushed = 0;
  for (int64_t row = begin; row < end; ++row) {
    for (int64_t column = 0; column < columns; ++column) {
      const float scaled = load_float(op.qkv.as<T>()[row * columns + column]) * factor;
      uint8_t& code =
          column < row_features
              ? op.queries_keys.as<uint8_t>()[row * row_features + column]
              : op.values.as<uint8_t>()[(column - row_features) * value_columns + op::fp8_value_column(row)];
      code = to_fp8(DType::kE4M3, scaled);
      flushed += scaled != 0 && std::abs(scaled) <= fp8_flushed_below(DType::kE4M3) ? 1 : 0;
    }
  }
  return flushed;
}

/// Columns of the transposed values that no row has.
void clear_spare_columns(const op::QuantizeQkv<Tensor>& op) {
  const int64_t columns = op.values.columns();
  for (int64_t row = op.qkv.rows(); row < columns; ++row) {
    for (int64_t feature = 0; feature < op.values.rows(); ++feature) {
      op.values.as<uint8_t>()[feature * columns + op::fp8_value_column(row)] = 0;
    }
  }
}

/// One head of one document.
class HeadOfDocument {
 public:
  HeadOfDocument(const op::AttentionForwardFp8<Tensor>& op, int head, int64_t first)
      : op_(op),
        dim_(op.shape.head_dim),
        head_(head),
        kv_head_(head / (op.shape.num_heads / op.shape.num_kv_heads)),
        first_(first),
        scale_(*op.scale.as<float>()) {}

  /// Writes the query's row of out and its log-sum-exp. `scores`: room for its keys.
  template <class T>
  void attend(int64_t query, std::vector<float>& scores) const {
    const int64_t window = op_.shape.window;
    const int64_t first_key = window > 0 && query >= window ? query - window + 1 : 0;
    const float factor = op_.shape.scale * scale_ * scale_;
    scores.clear();
    for (int64_t key = first_key; key <= query; ++key) scores.push_back(factor * product(query, key));
    const float largest = *std::max_element(scores.begin(), scores.end());
    float sum = 0;
    std::vector<float> out(static_cast<size_t>(dim_));
    for (int64_t key = first_key; key <= query; ++key) {
      const float weight = std::exp2((scores[static_cast<size_t>(key - first_key)] - largest) * kLog2E +
                                     static_cast<float>(op::kFp8ProbabilityBits));
      sum += weight;
      const float rounded = fp8_to_float(DType::kE4M3, to_fp8(DType::kE4M3, weight));
      for (int64_t d = 0; d < dim_; ++d) out[static_cast<size_t>(d)] += rounded * value(key, d);
    }
    const int64_t row = first_ + query;
    T* const written = op_.out.as<T>() + (row * op_.shape.num_heads + head_) * dim_;
    for (int64_t d = 0; d < dim_; ++d) store_float(written[d], out[static_cast<size_t>(d)] * (scale_ / sum));
    op_.log_sum_exp.as<float>()[head_ * op_.out.rows() + row] =
        largest + std::log(sum) - static_cast<float>(op::kFp8ProbabilityBits) * kLn2;
  }

 private:
  static constexpr float kLog2E = 1.44269504088896340736f;
  static constexpr float kLn2 = 0.693147180559945309417f;

  float product(int64_t query, int64_t key) const {
    const auto row_of = [&](int64_t row, int64_t head) {
      return op_.queries_keys.as<uint8_t>() + (first_ + row) * op_.queries_keys.columns() + head * dim_;
    };
    const uint8_t* const a = row_of(query, head_);
    const uint8_t* const b = row_of(key, op_.shape.num_heads + kv_head_);
    float sum = 0;
    for (int64_t d = 0; d < dim_; ++d) sum += values_[a[d]] * values_[b[d]];
    return sum;
  }
  float value(int64_t key, int64_t d) const {
    return values_[op_.values.as<uint8_t>()[(kv_head_ * dim_ + d) * op_.values.columns() +
                                            op::fp8_value_column(first_ + key)]];
  }

  const op::AttentionForwardFp8<Tensor>& op_;
  const std::array<float, 256>& values_ = e4m3_values();
  int64_t dim_, head_, kv_head_, first_;
  float scale_;
};

template <class T>
void forward(const op::AttentionForwardFp8<Tensor>& op, int threads) {
  const op::AttentionShape& shape = op.shape;
  const int64_t num_rows = op.out.rows();
  const auto* const offsets = op.offsets.as<int32_t>();
  const int64_t num_documents = *op.num_documents.as<int32_t>();
  for (int64_t document = 0; document < num_documents; ++document) {
    const int64_t first = offsets[document];
    parallel_blocks(threads, offsets[document + 1] - first, [&](int64_t query) {
      std::vector<float> scores;
      for (int head = 0; head < shape.num_heads; ++head) {
        if (shape.gates.is_on(head)) HeadOfDocument(op, head, first).attend<T>(query, scores);
      }
    });
  }
  const int64_t end = num_documents > 0 ? offsets[num_documents] : 0;
  zero_rows(threads, op.out.as<T>(), end, num_rows, op.out.columns());
  zero_off_heads(threads, shape, op.out.as<T>(), end, op.out.columns());
  for (int head = 0; head < shape.num_heads; ++head) {
    const int64_t from = shape.gates.is_on(head) ? end : 0;
    float* const statistics = op.log_sum_exp.as<float>() + head * num_rows;
    std::fill(statistics + from, statistics + num_rows, 0.0f);
  }
}

}  // namespace

void CpuBackend::run(const op::QuantizeQkv<Tensor>& op) {
  const Fp8Scale scale = fp8_scale(*op.abs_max.as<float>(), DType::kE4M3);
  *op.scale.as<float>() = scale.dequantise;
  std::atomic<int64_t> flushed = 0;
  visit_float_dtype(op.kName, op.qkv.dtype, [&](auto tag) {
    parallel_ranges(threads_, op.qkv.rows(), kRowsPerBlock, [&](int64_t begin, int64_t end) {
      flushed += quantize_rows<typename decltype(tag)::type>(op, scale.quantise, begin, end);
    });
  });
  clear_spare_columns(op);
  if (!op.state.has_value()) return;
  auto& state = *static_cast<StepState*>(op.state.data);
  state.fp8_overflows += std::isnan(scale.dequantise) ? 1 : 0;
  state.fp8_inputs += op.qkv.num_elements();
  state.fp8_inputs_flushed += flushed;
}

void CpuBackend::run(const op::AttentionForwardFp8<Tensor>& op) {
  visit_float_dtype(op.kName, op.out.dtype, [&](auto tag) { forward<typename decltype(tag)::type>(op, threads_); });
  raise_abs_max(threads_, op.abs_max, op.out);
}

}  // namespace litespark::cpu
