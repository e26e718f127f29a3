// SPDX-License-Identifier: Apache-2.0
// Token embedding. The gradient sorts token positions by id (stable counting sort), so that every row of the table has
// one owner that adds its tokens in order: deterministic without atomics.
#include <algorithm>
#include <cstddef>
#include <cstring>

#include "core/step_state.h"
#include "ops/cpu/cpu_backend_impl.h"
#include "ops/cpu/join_floats.h"
#include "ops/cpu/kernel_table.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/rows.h"

namespace litespark::cpu {
namespace {

constexpr int64_t kRowsPerBlock = 16;
constexpr int64_t kTableRowsPerBlock = 64;

bool is_valid(int64_t id, int64_t vocab) {
  return id >= 0 && id < vocab;
}

/// The ids that a table holds.
struct HeldIds {
  int64_t first = 0;
  int64_t count = 0;
  bool contains(int32_t id) const { return is_valid(id - first, count); }
  int64_t row(int32_t id) const { return id - first; }
};

/// Stable counting sort: positions of row v are order[starts[v]] .. order[starts[v + 1] - 1], in token order. Ids that
/// the table does not hold are left out.
void sort_by_id(const int32_t* ids, int64_t num_tokens, const HeldIds& held, int32_t* starts, int32_t* order) {
  std::fill(starts, starts + held.count + 1, 0);
  for (int64_t n = 0; n < num_tokens; ++n) {
    if (held.contains(ids[n])) ++starts[held.row(ids[n])];
  }
  int32_t total = 0;
  for (int64_t v = 0; v <= held.count; ++v) {
    total += starts[v];
    starts[v] = total;
  }
  // Walking backwards turns each row's end into its start.
  for (int64_t n = num_tokens - 1; n >= 0; --n) {
    if (held.contains(ids[n])) order[--starts[held.row(ids[n])]] = static_cast<int32_t>(n);
  }
}

/// One row of a table that is stored as two halves.
void lookup_joined(const op::EmbeddingForward<Tensor>& op, int64_t id, std::byte* out,
                   void (*convert)(const void* from, void* to, int64_t size)) {
  float joined[256];
  const int64_t channels = op.table.columns();
  for (int64_t c = 0; c < channels; c += 256) {
    const int64_t size = std::min<int64_t>(256, channels - c);
    const int64_t at = id * channels + c;
    join_floats(op.table.as<bf16>() + at, op.remainder.as<uint16_t>() + at, joined, size);
    convert(joined, out + c * dtype_bytes(op.out.dtype), size);
  }
}

}  // namespace

void CpuBackend::run(const op::EmbeddingForward<Tensor>& op) {
  const int64_t num_tokens = op.ids.num_elements();
  const HeldIds held{.first = op.first_id, .count = op.table.rows()};
  const int64_t vocab = op.vocab > 0 ? op.vocab : held.count;
  const int64_t channels = op.table.columns();
  const int32_t* ids = op.ids.as<int32_t>();
  auto* state = static_cast<StepState*>(op.state.data);
  state->bad_tokens += std::count_if(ids, ids + num_tokens, [&](int32_t id) { return !is_valid(id, vocab); });
  const bool is_split = op.remainder.has_value();
  const int table_dtype = is_split ? 0 : index_of(op.table.dtype);
  const auto convert = kernel_table(isa_).convert[table_dtype][index_of(op.out.dtype)];
  const Rows table(op.table);
  const Rows out(op.out);
  parallel_ranges(threads_, num_tokens, kRowsPerBlock, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      const bool is_here = is_valid(ids[n], vocab) && held.contains(ids[n]);
      if (is_here && is_split) {
        lookup_joined(op, held.row(ids[n]), static_cast<std::byte*>(out.row(n)), convert);
      } else if (is_here) {
        convert(table.row(held.row(ids[n])), out.row(n), channels);
      } else {
        std::memset(out.row(n), 0, static_cast<size_t>(out.row_bytes()));
      }
    }
  });
}

void CpuBackend::run(const op::EmbeddingBackward<Tensor>& op) {
  const int64_t num_tokens = op.ids.num_elements();
  const int64_t vocab = op.dtable.rows();
  const int64_t channels = op.dtable.columns();
  int32_t* starts = op.scratch.as<int32_t>();
  int32_t* order = starts + vocab + 1;
  sort_by_id(op.ids.as<int32_t>(), num_tokens, {.first = op.first_id, .count = vocab}, starts, order);
  float* dtable = op.dtable.as<float>();
  const auto add = kernel_table(isa_).add[index_of(op.dout.dtype)];
  const Rows dout(op.dout);
  parallel_ranges(threads_, vocab, kTableRowsPerBlock, [&](int64_t begin, int64_t end) {
    for (int64_t v = begin; v < end; ++v) {
      float* row = dtable + v * channels;
      if (!op.accumulate) std::fill(row, row + channels, 0.0f);
      for (int32_t i = starts[v]; i < starts[v + 1]; ++i) add(row, dout.row(order[i]), channels);
    }
  });
}

}  // namespace litespark::cpu
