// SPDX-License-Identifier: Apache-2.0
#include "anatomy/attention.h"

#include <algorithm>
#include <cmath>

#include "anatomy/workspace.h"
#include "core/checked.h"
#include "core/text_table.h"

namespace litespark::anatomy {
namespace {

/// Rows and columns of the tiles that claim:L1 speaks of.
constexpr int64_t kTile = 128;

/// Areas of the tiles that hold a visible pair, and of what in them lies past the end.
struct TileArea {
  double visited = 0;
  double empty = 0;
};

TileArea tile_area(int64_t length) {
  TileArea area;
  for (int64_t q0 = 0; q0 < length; q0 += kTile) {
    for (int64_t k0 = 0; k0 <= q0; k0 += kTile) {
      const double filled = real(std::min(kTile, length - q0)) * real(std::min(kTile, length - k0));
      area.visited += real(kTile * kTile);
      area.empty += real(kTile * kTile) - filled;
    }
  }
  return area;
}

/// What ranks that share a layer's heads send, by rings, for one layer's forward: the sum of its output [N, C].
double parallel_bytes(int64_t tokens, int64_t hidden, int64_t ranks) {
  return 2.0 * real(ranks - 1) / real(ranks) * real(tokens * hidden) * 2.0;
}

/// A claim's row: one sequence of L tokens, h heads, and the figures that it states.
struct ParallelRow {
  int64_t length, heads, head_dim;
  const char* published_flops;
  const char* published_bytes;
};
constexpr ParallelRow kParallelRows[] = {{512, 12, 64, "1.8 G", "0.23 GB"}, {4096, 32, 128, "115.2 G", "14.6 GB"}};
constexpr int64_t kRanks = 8;

Table parallel_table() {
  Table table{
      .key = "tensor_parallel",
      .title = "one layer's attention forward, one sequence, heads over " + std::to_string(kRanks) + " ranks (counted)",
      .columns = {"length, heads", "scores and values", "with projections", "claim:C6", "sent a rank", "claim:C6"},
      .rows = {}};
  for (const ParallelRow& row : kParallelRows) {
    const int64_t hidden = row.heads * row.head_dim;
    const AttentionCounts counts = count_attention({.num_heads = static_cast<int>(row.heads),
                                                    .num_kv_heads = static_cast<int>(row.heads),
                                                    .head_dim = static_cast<int>(row.head_dim),
                                                    .max_documents = 1,
                                                    .max_length = static_cast<int>(row.length),
                                                    .uniform = true},
                                                   DType::kBF16);
    const double projections = 8.0 * real(row.length) * real(hidden * hidden);
    table.rows.push_back({words(std::to_string(row.length) + ", " + std::to_string(row.heads)),
                          quantity(counts.forward_flops / 1e9, "GFLOP", 2),
                          quantity((counts.forward_flops + projections) / 1e9, "GFLOP", 2), words(row.published_flops),
                          bytes_value(parallel_bytes(row.length, hidden, kRanks)), words(row.published_bytes)});
  }
  return table;
}

struct Measured {
  int64_t length = 0;
  int64_t sequences = 0;
  AttentionCounts counts;
  AttentionSpeed speed;
};

Table speed_table(const std::vector<Measured>& all) {
  Table table{.key = "lengths",
              .title = "by length of the sequence",
              .columns = {"tokens", "forward", "", "backward", "", "bytes, once each", "by tiles of 128",
                          "scores stored", "saved", "tiles' area empty"},
              .rows = {}};
  for (const Measured& one : all) {
    const AttentionCounts& counts = one.counts;
    const auto rate = [](double flops, double seconds) { return quantity(flops / seconds / 1e9, "GFLOP/s", 1); };
    table.rows.push_back(
        {words(std::to_string(one.sequences) + " x " + std::to_string(one.length)),
         seconds_value(one.speed.forward_seconds), rate(counts.forward_flops, one.speed.forward_seconds),
         seconds_value(one.speed.backward_seconds), rate(counts.backward_flops, one.speed.backward_seconds),
         bytes_value(counts.tensor_bytes), bytes_value(counts.tiled_bytes), bytes_value(counts.naive_bytes),
         percent(1 - counts.tiled_bytes / counts.naive_bytes), percent(counts.empty_share)});
  }
  return table;
}

std::vector<Finding> findings_of(const std::vector<Measured>& all) {
  const Measured& longest = *std::max_element(all.begin(), all.end(),
                                              [](const Measured& a, const Measured& b) { return a.length < b.length; });
  const double published_growth = 115.2 / 1.8;
  return {
      {.key = "saved",
       .what = "bytes saved by tiles at " + std::to_string(longest.length) + " tokens (counted)",
       .ours = percent(1 - longest.counts.tiled_bytes / longest.counts.naive_bytes),
       .claim = "L1",
       .published = "memory transactions -73 %",
       .advice = "the saving grows with the sequence: short ones gain little from tiles"},
      {.key = "rate",
       .what = "forward at " + std::to_string(longest.length) + " tokens",
       .ours = quantity(longest.counts.forward_flops / longest.speed.forward_seconds / 1e9, "GFLOP/s", 1)},
      {.key = "counted_twice",
       .what = "FLOPs of the full square over those of the pairs that are seen",
       .ours = factor(2.0 * real(longest.length) / real(longest.length + 1)),
       .claim = "C6",
       .published = "attention FLOPs are often miscounted",
       .advice = "count 4 D for each visible pair and head: half of 4 D T^2"},
      {.key = "published_growth",
       .what = "claim's FLOPs, its second row over its first",
       .ours = factor(published_growth),
       .claim = "C6",
       .published = "1.8 G -> 115.2 G from 512 to 4096 tokens and 12 to 32 heads: (4096 / 512)^2 = 64 alone, so the "
                    "heads are missing",
       .advice =
           "see the table: with heads and their width the factor is " + fixed_text(64.0 * 32 * 128 / (12.0 * 64), 0)}};
}

}  // namespace

op::AttentionShape attention_shape(const AttentionSizes& sizes, int64_t length) {
  return {.num_heads = static_cast<int>(sizes.heads),
          .num_kv_heads = static_cast<int>(sizes.kv_heads),
          .head_dim = static_cast<int>(sizes.head_dim),
          .scale = static_cast<float>(1.0 / std::sqrt(real(sizes.head_dim))),
          .max_documents = static_cast<int>(std::max<int64_t>(1, sizes.tokens / length)),
          .max_length = static_cast<int>(length),
          .uniform = true};
}

AttentionCounts count_attention(const op::AttentionShape& shape, DType compute) {
  const int64_t length = shape.max_length;
  const double sequences = shape.max_documents;
  const double heads = shape.num_heads;
  const double dim = shape.head_dim;
  const double element = real(dtype_bytes(compute));
  const double rows = sequences * real(length);
  const double pairs = sequences * heads * real(length) * real(length + 1) / 2;
  const double query_bytes = rows * heads * dim * element;
  const double key_bytes = 2 * rows * shape.num_kv_heads * dim * element;  // and values
  const double statistics = 4 * rows * heads;
  AttentionCounts counts;
  counts.forward_flops = 4 * dim * pairs;
  counts.backward_flops = 2.5 * counts.forward_flops;
  counts.tensor_bytes = 2 * query_bytes + key_bytes + statistics;
  double key_rows = 0;  // read by the query tiles of one head of one sequence
  for (int64_t q0 = 0; q0 < length; q0 += kTile) key_rows += real(std::min(length, q0 + kTile));
  counts.tiled_bytes = 2 * query_bytes + statistics + sequences * heads * key_rows * 2 * dim * element;
  // Scores are written, read by softmax, written as weights and read again.
  counts.naive_bytes = 2 * query_bytes + key_bytes + 4 * sequences * heads * real(length) * real(length) * element;
  const TileArea area = tile_area(length);
  counts.empty_share = area.empty / area.visited;
  return counts;
}

AttentionSpeed measure_attention(Backend& backend, const MeasureOptions& options, const op::AttentionShape& shape) {
  Workspace workspace(backend);
  const int64_t rows = int64_t{shape.max_documents} * shape.max_length;
  const int64_t width = (int64_t{shape.num_heads} + 2 * int64_t{shape.num_kv_heads}) * shape.head_dim;
  const int64_t out_width = int64_t{shape.num_heads} * shape.head_dim;
  const DType compute = options.compute;
  std::vector<int32_t> starts;
  for (int document = 0; document <= shape.max_documents; ++document) starts.push_back(document * shape.max_length);
  const Tensor qkv = workspace.numbers(compute, {rows, width});
  const Tensor out = workspace.zeros(compute, {rows, out_width});
  const Tensor log_sum_exp = workspace.zeros(DType::kF32, {shape.num_heads, rows});
  const Tensor offsets = workspace.integers(starts);
  const Tensor documents = workspace.integers(std::vector<int32_t>{shape.max_documents});
  const BackendSizes& sizes = backend.sizes();
  const op::AttentionForward<Tensor> forward{
      .out = out,
      .log_sum_exp = log_sum_exp,
      .qkv = qkv,
      .offsets = offsets,
      .num_documents = documents,
      .scratch = workspace.scratch(sizes.attention_forward_scratch_bytes(shape, rows, compute)),
      .abs_max = {},
      .shape = shape};
  const op::AttentionBackward<Tensor> backward{
      .dqkv = workspace.zeros(compute, {rows, width}),
      .dout = workspace.numbers(compute, {rows, out_width}),
      .qkv = qkv,
      .out = out,
      .log_sum_exp = log_sum_exp,
      .offsets = offsets,
      .num_documents = documents,
      .scratch = workspace.scratch(sizes.attention_backward_scratch_bytes(shape, rows, compute)),
      .shape = shape};
  backend.prepare(forward);
  backend.prepare(backward);
  return {.forward_seconds = time_runs(backend, options.seconds, [&] { backend.run(forward); }).median_seconds,
          .backward_seconds = time_runs(backend, options.seconds, [&] { backend.run(backward); }).median_seconds};
}

/// Time of a call in which only the first heads of every four are on.
Table gate_table(Backend& backend, const MeasureOptions& options, const AttentionSizes& sizes, int64_t length) {
  Table table{.key = "gates",
              .title = "time with heads switched off, over that of all, " + std::to_string(length) + " tokens",
              .columns = {"heads on", "share", "forward", "backward"},
              .rows = {}};
  op::AttentionShape shape = attention_shape(sizes, length);
  AttentionSpeed all;
  for (int on = 4; on > 0; --on) {
    for (int head = 0; head < shape.num_heads; ++head) {
      if (head % 4 >= on) shape.gates.switch_off(head);
    }
    const AttentionSpeed speed = measure_attention(backend, options, shape);
    if (on == 4) all = speed;
    const int num_on = shape.gates.num_on(0, shape.num_heads);
    table.rows.push_back({quantity(num_on, "", 0), percent(real(num_on) / shape.num_heads),
                          percent(speed.forward_seconds / all.forward_seconds),
                          percent(speed.backward_seconds / all.backward_seconds)});
  }
  return table;
}

Chapter attention_chapter(Backend& backend, const MeasureOptions& options, const AttentionSizes& sizes) {
  std::vector<Measured> all;
  for (const int64_t length : sizes.lengths) {
    const op::AttentionShape shape = attention_shape(sizes, length);
    all.push_back({.length = length,
                   .sequences = shape.max_documents,
                   .counts = count_attention(shape, options.compute),
                   .speed = measure_attention(backend, options, shape)});
  }
  Chapter chapter{.name = "attention", .title = "causal attention: arithmetic, bytes, speed"};
  chapter.setup = {{"heads", std::to_string(sizes.heads) + " of " + std::to_string(sizes.head_dim) + ", " +
                                 std::to_string(sizes.kv_heads) + " of keys; " +
                                 std::string(dtype_name(options.compute))}};
  chapter.findings = findings_of(all);
  chapter.tables = {speed_table(all), parallel_table(), gate_table(backend, options, sizes, sizes.lengths.back())};
  return chapter;
}

}  // namespace litespark::anatomy
