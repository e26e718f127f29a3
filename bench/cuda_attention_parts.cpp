// SPDX-License-Identifier: Apache-2.0
// Times the parts of attention that context ranks share, on one GPU, beside whole attention with as many visible pairs:
//   bench_cuda_attention_parts [--json=FILE] [--seconds=0.3] [--heads=96]
// One document over all ranks: the queries of a rank with its own keys, those of a lower rank and those of a higher
// one, by the Hopper kernels in fixed and in free order, and by the portable ones. --heads: of that size alone.
#include <cmath>
#include <cstdio>
#include <fstream>
#include <string_view>

#include "op_timer.h"
#include "ops/cuda/cuda_backend.h"

namespace litespark::bench {
namespace {

struct PartCase {
  int rows, heads, kv_heads, head_dim;  ///< rows of a rank
};
constexpr PartCase kCases[] = {{2048, 24, 8, 128}, {8192, 24, 8, 128},     {32768, 24, 8, 128}, {4096, 32, 8, 64},
                               {16384, 32, 8, 64}, {8191 * 2, 24, 8, 128}, {4096, 32, 32, 96},  {16384, 32, 32, 96},
                               {4096, 16, 8, 256}, {16384, 16, 8, 256}};

struct Mode {
  const char* name;
  CudaOptions options;
};
const Mode kModes[] = {{"hopper, fixed order", {.attention = AttentionKind::kHopper}},
                       {"hopper, free order", {.deterministic = false, .attention = AttentionKind::kHopper}},
                       {"portable", {.attention = AttentionKind::kPortable}}};

op::AttentionShape shape_of(const PartCase& test, int length) {
  return {.num_heads = test.heads,
          .num_kv_heads = test.kv_heads,
          .head_dim = test.head_dim,
          .scale = 1.0f / std::sqrt(static_cast<float>(test.head_dim)),
          .max_documents = 1,
          .max_length = length};
}

/// Half of all pairs of a rank's rows, in every part and in whole attention of as many rows.
double forward_flops(const PartCase& test) {
  return 2.0 * test.rows * test.rows * test.head_dim * test.heads;
}

struct Bench {
  Backend& backend;
  const OpTimer& timer;
  std::vector<Row>& rows;

  template <class Op>
  void time(Row row, const Op& op) const {
    timer.time(row, [&] { backend.run(op); });
    print_row(row);
    rows.push_back(std::move(row));
  }
};

void bench_part(const Bench& bench, const Row& row, const PartCase& test, const op::ContextPart& part) {
  CaseTensors tensors(bench.backend);
  const op::AttentionShape shape = shape_of(test, part.ranks * test.rows);
  const int64_t out_columns = int64_t{test.heads} * test.head_dim;
  const int64_t kv_columns = int64_t{2} * test.kv_heads * test.head_dim;
  const BackendSizes& sizes = bench.backend.sizes();
  const op::AttentionPartForward<Tensor> forward{
      .out = tensors.zeros(DType::kF32, {test.rows, out_columns}),
      .log_sum_exp = tensors.zeros(DType::kF32, {test.heads, test.rows}),
      .qkv = tensors.random(DType::kBF16, {test.rows, out_columns + kv_columns}),
      .keys_values = tensors.random(DType::kBF16, {test.rows, kv_columns}),
      .offsets = tensors.integers({0, part.ranks * test.rows}),
      .num_documents = tensors.integers({1}),
      .scratch = tensors.scratch(sizes.attention_part_forward_scratch_bytes(shape, test.rows, DType::kBF16)),
      .shape = shape,
      .part = part,
      .first = part.query_rank == part.key_rank};
  const op::AttentionPartBackward<Tensor> backward{
      .dqueries = tensors.zeros(DType::kF32, {test.rows, out_columns}),
      .dkeys_values = tensors.zeros(DType::kF32, {test.rows, kv_columns}),
      .dout = tensors.random(DType::kBF16, {test.rows, out_columns}),
      .qkv = forward.qkv,
      .keys_values = forward.keys_values,
      .out = tensors.random(DType::kBF16, {test.rows, out_columns}),
      .log_sum_exp = forward.log_sum_exp,
      .offsets = forward.offsets,
      .num_documents = forward.num_documents,
      .scratch = tensors.scratch(sizes.attention_part_backward_scratch_bytes(shape, test.rows, DType::kBF16)),
      .shape = shape,
      .part = part,
      .first = forward.first};
  Row forward_row = row;
  forward_row.name += " forward";
  bench.time(forward_row, forward);
  Row backward_row = row;
  backward_row.name += " backward";
  backward_row.flops *= 2.5;
  bench.time(backward_row, backward);
}

void bench_whole(const Bench& bench, Row row, const PartCase& test) {
  CaseTensors tensors(bench.backend);
  const op::AttentionShape shape = shape_of(test, test.rows);
  const int64_t out_columns = int64_t{test.heads} * test.head_dim;
  const int64_t packed = out_columns + int64_t{2} * test.kv_heads * test.head_dim;
  const op::AttentionBackward<Tensor> backward{
      .dqkv = tensors.zeros(DType::kBF16, {test.rows, packed}),
      .dout = tensors.random(DType::kBF16, {test.rows, out_columns}),
      .qkv = tensors.random(DType::kBF16, {test.rows, packed}),
      .out = tensors.random(DType::kBF16, {test.rows, out_columns}),
      .log_sum_exp = tensors.zeros(DType::kF32, {test.heads, test.rows}),
      .offsets = tensors.integers({0, test.rows}),
      .num_documents = tensors.integers({1}),
      .scratch =
          tensors.scratch(bench.backend.sizes().attention_backward_scratch_bytes(shape, test.rows, DType::kBF16)),
      .shape = shape};
  bench.backend.prepare(backward);
  row.name += " whole backward";
  row.flops *= 2.5;
  bench.time(row, backward);
}

struct Arguments {
  std::string json;
  double seconds = 0.3;
  int head_dim = 0;  ///< 0: all
};

int run(const Arguments& arguments) {
  const GpuMonitor monitor;
  const std::string device = make_cuda_backend({})->name();
  std::printf("%s\n", device.c_str());
  std::vector<Row> rows;
  for (const PartCase& test : kCases) {
    if (arguments.head_dim != 0 && test.head_dim != arguments.head_dim) continue;
    for (const Mode& mode : kModes) {
      const auto backend = make_cuda_backend(mode.options);
      const OpTimer timer(*backend, monitor, arguments.seconds);
      const Bench bench{.backend = *backend, .timer = timer, .rows = rows};
      const auto row = [&](const std::string& keys) {
        return Row{.group = "attention part",
                   .name = std::to_string(test.rows) + " rows, H=" + std::to_string(test.heads) + "/" +
                           std::to_string(test.kv_heads) + " D=" + std::to_string(test.head_dim) + keys,
                   .implementation = mode.name,
                   .flops = forward_flops(test)};
      };
      bench_whole(bench, row(""), test);
      bench_part(bench, row(", own keys"), test, {.ranks = 4, .query_rank = 1, .key_rank = 1});
      bench_part(bench, row(", a lower rank's"), test, {.ranks = 4, .query_rank = 2, .key_rank = 1});
      bench_part(bench, row(", a higher rank's"), test, {.ranks = 4, .query_rank = 1, .key_rank = 2});
    }
  }
  if (!arguments.json.empty()) std::ofstream(arguments.json) << to_json(device, rows);
  return 0;
}

}  // namespace
}  // namespace litespark::bench

int main(int count, char** values) {
  litespark::bench::Arguments arguments;
  for (int i = 1; i < count; ++i) {
    const std::string_view value = values[i];
    if (value.starts_with("--json=")) arguments.json = value.substr(7);
    if (value.starts_with("--seconds=")) arguments.seconds = std::stod(std::string(value.substr(10)));
    if (value.starts_with("--heads=")) arguments.head_dim = std::stoi(std::string(value.substr(8)));
  }
  try {
    return litespark::bench::run(arguments);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
