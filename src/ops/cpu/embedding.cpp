// SPDX-License-Identifier: Apache-2.0
// Token embedding. The gradient sorts token positions by id (stable counting sort), so that every row of the table has
// one owner that adds its tokens in order: deterministic without atomics.
#include <algorithm>
#include <cstring>

#include "core/step_state.h"
#include "ops/cpu/cpu_backend_impl.h"
#include "ops/cpu/parallel.h"

namespace litespark::cpu {
namespace {

constexpr int64_t kRowsPerBlock = 16;
constexpr int64_t kTableRowsPerBlock = 64;

bool is_valid(int32_t id, int64_t vocab) {
  return id >= 0 && id < vocab;
}

/// Stable counting sort: positions with id v are order[starts[v]] .. order[starts[v + 1] - 1], in token order. Ids
/// outside the vocabulary are left out.
void sort_by_id(const int32_t* ids, int64_t num_tokens, int64_t vocab, int32_t* starts, int32_t* order) {
  std::fill(starts, starts + vocab + 1, 0);
  for (int64_t n = 0; n < num_tokens; ++n) {
    if (is_valid(ids[n], vocab)) ++starts[ids[n]];
  }
  int32_t total = 0;
  for (int64_t v = 0; v <= vocab; ++v) {
    total += starts[v];
    starts[v] = total;
  }
  // Walking backwards turns each row's end into its start.
  for (int64_t n = num_tokens - 1; n >= 0; --n) {
    if (is_valid(ids[n], vocab)) order[--starts[ids[n]]] = static_cast<int32_t>(n);
  }
}

}  // namespace

void CpuBackend::run(const op::EmbeddingForward<Tensor>& op) {
  const int64_t num_tokens = op.ids.num_elements();
  const int64_t vocab = op.table.rows();
  const int64_t channels = op.table.columns();
  const int32_t* ids = op.ids.as<int32_t>();
  auto* state = static_cast<StepState*>(op.state.data);
  state->bad_tokens += std::count_if(ids, ids + num_tokens, [&](int32_t id) { return !is_valid(id, vocab); });
  visit_float_dtype(op.kName, op.table.dtype, [&](auto table_tag) {
    visit_float_dtype(op.kName, op.out.dtype, [&](auto out_tag) {
      const auto* table = op.table.as<typename decltype(table_tag)::type>();
      auto* out = op.out.as<typename decltype(out_tag)::type>();
      parallel_ranges(threads_, num_tokens, kRowsPerBlock, [&](int64_t begin, int64_t end) {
        for (int64_t n = begin; n < end; ++n) {
          const bool valid = is_valid(ids[n], vocab);
          for (int64_t c = 0; c < channels; ++c) {
            store_float(out[n * channels + c], valid ? load_float(table[ids[n] * channels + c]) : 0.0f);
          }
        }
      });
    });
  });
}

void CpuBackend::run(const op::EmbeddingBackward<Tensor>& op) {
  const int64_t num_tokens = op.ids.num_elements();
  const int64_t vocab = op.dtable.rows();
  const int64_t channels = op.dtable.columns();
  int32_t* starts = op.scratch.as<int32_t>();
  int32_t* order = starts + vocab + 1;
  sort_by_id(op.ids.as<int32_t>(), num_tokens, vocab, starts, order);
  float* dtable = op.dtable.as<float>();
  visit_float_dtype(op.kName, op.dout.dtype, [&](auto tag) {
    const auto* dout = op.dout.as<typename decltype(tag)::type>();
    parallel_ranges(threads_, vocab, kTableRowsPerBlock, [&](int64_t begin, int64_t end) {
      for (int64_t v = begin; v < end; ++v) {
        float* row = dtable + v * channels;
        if (!op.accumulate) std::fill(row, row + channels, 0.0f);
        for (int32_t i = starts[v]; i < starts[v + 1]; ++i) {
          const auto* source = dout + order[i] * channels;
          for (int64_t c = 0; c < channels; ++c) row[c] += load_float(source[c]);
        }
      }
    });
  });
}

}  // namespace litespark::cpu
