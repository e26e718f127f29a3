// SPDX-License-Identifier: Apache-2.0
#include "attention_benches.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <string_view>

#include "core/bf16.h"

namespace litespark::bench {
namespace {

/// Heads of 96 as in Phi-3-mini, of 256 as in Gemma.
constexpr AttentionCase kOtherHeads[] = {
    {16, 1024, 32, 32, 96, 0}, {8, 2048, 32, 32, 96, 0},  {4, 4096, 32, 32, 96, 0}, {4, 4096, 32, 8, 96, 0},
    {1, 16384, 32, 32, 96, 0}, {16, 1024, 16, 8, 256, 0}, {8, 2048, 16, 8, 256, 0}, {4, 4096, 16, 8, 256, 0},
    {4, 4097, 16, 8, 256, 0},  {1, 16384, 16, 8, 256, 0}};

/// 4 T^2 D H / 2 for the causal half; windows counted exactly.
double attention_flops(const AttentionCase& test) {
  double pairs = 0;
  for (int query = 0; query < test.length; ++query) {
    pairs += test.window > 0 ? std::min(query + 1, test.window) : query + 0.5;
  }
  return 4.0 * pairs * test.head_dim * test.heads * test.batch;
}

op::AttentionShape shape_of(const AttentionCase& test) {
  return {.num_heads = test.heads,
          .num_kv_heads = test.kv_heads,
          .head_dim = test.head_dim,
          .window = test.window,
          .scale = 1.0f / std::sqrt(static_cast<float>(test.head_dim)),
          .max_documents = test.batch,
          .max_length = test.length,
          .uniform = true};
}

/// What the backend says it runs for the op of this direction.
std::string chosen(Backend& backend, const char* direction, const std::string& mode) {
  std::string choice = "?";
  for (const auto& [key, value] : backend.tuning()) {
    if (key.starts_with(direction)) choice = value;
  }
  return choice + ", " + mode;
}

struct AttentionOps {
  op::AttentionForward<Tensor> forward;
  op::AttentionBackward<Tensor> backward;
};

AttentionOps attention_ops(const Backend& backend, CaseTensors& tensors, const AttentionCase& test) {
  const op::AttentionShape shape = shape_of(test);
  const int64_t tokens = int64_t{test.batch} * test.length;
  const int64_t packed = int64_t{test.heads + 2 * test.kv_heads} * test.head_dim;
  const int64_t out_columns = int64_t{test.heads} * test.head_dim;
  std::vector<int32_t> offsets;
  for (int i = 0; i <= test.batch; ++i) offsets.push_back(i * test.length);
  const BackendSizes& sizes = backend.sizes();
  const op::AttentionForward<Tensor> forward{
      .out = tensors.zeros(DType::kBF16, {tokens, out_columns}),
      .log_sum_exp = tensors.zeros(DType::kF32, {test.heads, tokens}),
      .qkv = tensors.random(DType::kBF16, {tokens, packed}),
      .offsets = tensors.integers(offsets),
      .num_documents = tensors.integers({test.batch}),
      .scratch = tensors.scratch(sizes.attention_forward_scratch_bytes(shape, tokens, DType::kBF16)),
      .abs_max = {},
      .shape = shape};
  return {.forward = forward,
          .backward = {.dqkv = tensors.zeros(DType::kBF16, {tokens, packed}),
                       .dout = tensors.random(DType::kBF16, {tokens, out_columns}),
                       .qkv = forward.qkv,
                       .out = forward.out,
                       .log_sum_exp = forward.log_sum_exp,
                       .offsets = forward.offsets,
                       .num_documents = forward.num_documents,
                       .scratch = tensors.scratch(sizes.attention_backward_scratch_bytes(shape, tokens, DType::kBF16)),
                       .shape = shape}};
}

/// Cosines and sines of all positions of a document.
Tensor angle_table(CaseTensors& tensors, DType dtype, int length, int head_dim) {
  std::vector<int32_t> words;
  for (int position = 0; position < length; ++position) {
    for (int i = 0; i < head_dim; ++i) {
      const int pair = i % (head_dim / 2);
      const double angle = position * std::pow(10000.0, -2.0 * pair / head_dim);
      const auto value = static_cast<float>(i < head_dim / 2 ? std::cos(angle) : std::sin(angle));
      const uint32_t bits = dtype == DType::kF32 ? std::bit_cast<uint32_t>(value) : to_bf16(value).bits;
      if (dtype == DType::kF32 || i % 2 == 0) {
        words.push_back(static_cast<int32_t>(bits));
      } else {
        words.back() |= static_cast<int32_t>(bits << 16);
      }
    }
  }
  Tensor table = tensors.integers(words);
  table.dtype = dtype;
  table.shape = {length, head_dim};
  return table;
}

void bench_rotary_attention(Report& report, const GpuMonitor& monitor, double seconds, const AttentionCase& test) {
  const auto backend = make_cuda_backend({.attention = AttentionKind::kHopper});
  const OpTimer timer(*backend, monitor, seconds);
  CaseTensors tensors(*backend);
  const auto [forward, backward] = attention_ops(*backend, tensors, test);
  std::vector<int32_t> positions;
  for (int i = 0; i < test.batch * test.length; ++i) positions.push_back(i % test.length);
  op::AttentionForward<Tensor> rotated = forward;
  op::AttentionBackward<Tensor> rotated_back = backward;
  rotated.positions = rotated_back.positions = tensors.integers(positions);
  rotated.rotated = tensors.zeros(DType::kBF16, forward.qkv.shape);
  backend->prepare(forward);
  backend->prepare(backward);
  const auto time = [&](const char* direction, const std::string& implementation, DType dtype, const auto& run) {
    Row row{.group = "rotated", .name = attention_name(test, direction), .flops = attention_flops(test)};
    if (std::string_view(direction) == "backward") row.flops *= 2.5;
    row.implementation = implementation + ", angles in " + std::string(dtype_name(dtype));
    timer.time(row, run);
    report.add(std::move(row));
  };
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    rotated.table = rotated_back.table = angle_table(tensors, dtype, test.length, test.head_dim);
    time("forward", "rope, then forward", dtype, [&] {
      backend->run(op::rotation_of(rotated, rotated.qkv, false));
      backend->run(forward);
    });
    time("forward", "rotated on load", dtype, [&] { backend->run(rotated); });
    time("backward", "backward, then rope", dtype, [&] {
      backend->run(backward);
      backend->run(op::rotation_of(rotated_back, backward.dqkv, true));
    });
    time("backward", "rotated back on store", dtype, [&] { backend->run(rotated_back); });
  }
}

}  // namespace

std::string attention_name(const AttentionCase& test, const char* pass) {
  std::string name = "B=" + std::to_string(test.batch) + " T=" + std::to_string(test.length) +
                     " H=" + std::to_string(test.heads) + "/" + std::to_string(test.kv_heads) +
                     " D=" + std::to_string(test.head_dim);
  if (test.window > 0) name += " window=" + std::to_string(test.window);
  return name + " " + pass;
}

std::vector<AttentionCase> attention_cases() {
  std::vector<AttentionCase> cases;
  for (const int length : {1024, 2048, 4096, 8192, 16384}) {
    cases.push_back({16384 / length, length, 24, 8, 128, 0});
    cases.push_back({16384 / length, length, 32, 8, 64, 0});
  }
  cases.push_back({4, 4096, 24, 24, 128, 0});
  cases.push_back({4, 4097, 24, 8, 128, 0});
  cases.push_back({16, 2048, 12, 12, 64, 0});
  cases.push_back({8, 1024, 25, 25, 64, 0});
  cases.push_back({1, 16384, 24, 8, 128, 4096});
  cases.insert(cases.end(), std::begin(kOtherHeads), std::end(kOtherHeads));
  return cases;
}

std::vector<AttentionCase> backward_cases() {
  std::vector<AttentionCase> cases;
  for (const int length : {1024, 2048, 4096, 8192, 16384}) cases.push_back({16384 / length, length, 24, 8, 128, 0});
  const AttentionCase others[] = {{4, 4096, 24, 24, 128, 0},    {4, 4097, 24, 8, 128, 0}, {4, 4096, 32, 8, 64, 0},
                                  {16, 2048, 12, 12, 64, 0},    {8, 1024, 25, 25, 64, 0}, {4, 4097, 32, 8, 64, 0},
                                  {1, 16384, 24, 8, 128, 4096}, {1, 131072, 32, 8, 64, 0}};
  cases.insert(cases.end(), std::begin(others), std::end(others));
  cases.insert(cases.end(), std::begin(kOtherHeads), std::end(kOtherHeads));
  return cases;
}

void bench_attention(Report& report, const CudaOptions& options, const std::string& mode, const GpuMonitor& monitor,
                     double seconds, const AttentionCase& test) {
  // A backend a case: its list of choices then holds this case alone.
  const auto backend = make_cuda_backend(options);
  const OpTimer timer(*backend, monitor, seconds);
  CaseTensors tensors(*backend);
  const auto [forward, backward] = attention_ops(*backend, tensors, test);
  backend->prepare(forward);
  backend->prepare(backward);
  const Row row{.group = "attention", .flops = attention_flops(test)};
  Row forward_row = row;
  forward_row.name = attention_name(test, "forward");
  forward_row.implementation = chosen(*backend, "attention_forward", mode);
  measure(report, forward_row, *backend, timer, forward, true);
  Row backward_row = row;
  backward_row.name =
      attention_name(test, "backward") + " (scratch " + std::to_string(backward.scratch.bytes() >> 20) + " MiB)";
  backward_row.implementation = chosen(*backend, "attention_backward", mode);
  backward_row.flops *= 2.5;
  measure(report, backward_row, *backend, timer, backward, true);
}

std::vector<AttentionCase> fp8_attention_cases() {
  std::vector<AttentionCase> cases;
  for (const AttentionCase& test : attention_cases()) {
    if (test.head_dim == 128) cases.push_back(test);
  }
  return cases;
}

void bench_fp8_attention(Report& report, const GpuMonitor& monitor, double seconds, const AttentionCase& test) {
  const auto backend = make_cuda_backend({.attention = AttentionKind::kHopper});
  const OpTimer timer(*backend, monitor, seconds);
  CaseTensors tensors(*backend);
  const int64_t tokens = int64_t{test.batch} * test.length;
  const int64_t key_columns = int64_t{test.kv_heads} * test.head_dim;
  const int64_t out_columns = int64_t{test.heads} * test.head_dim;
  std::vector<int32_t> offsets;
  for (int i = 0; i <= test.batch; ++i) offsets.push_back(i * test.length);
  const op::AttentionForward<Tensor> forward{
      .out = tensors.zeros(DType::kBF16, {tokens, out_columns}),
      .log_sum_exp = tensors.zeros(DType::kF32, {test.heads, tokens}),
      .qkv = tensors.random(DType::kBF16, {tokens, out_columns + 2 * key_columns}),
      .offsets = tensors.integers(offsets),
      .num_documents = tensors.integers({test.batch}),
      .scratch = {},
      .abs_max = {},
      .shape = shape_of(test)};
  const op::QuantizeQkv<Tensor> quantize{
      .queries_keys = tensors.zeros(DType::kE4M3, {tokens, out_columns + key_columns}),
      .values = tensors.zeros(DType::kE4M3, {key_columns, op::fp8_value_columns(tokens)}),
      .scale = tensors.zeros(DType::kF32, {1}),
      .qkv = forward.qkv,
      .abs_max = tensors.zeros(DType::kF32, {1}),
      .state = {},
      .num_heads = test.heads,
      .num_kv_heads = test.kv_heads,
      .head_dim = test.head_dim};
  backend->run(op::AbsMax<Tensor>{.abs_max = quantize.abs_max, .column_abs_max = {}, .x = forward.qkv});
  const op::AttentionForwardFp8<Tensor> on_fp8{.out = forward.out,
                                               .log_sum_exp = forward.log_sum_exp,
                                               .queries_keys = quantize.queries_keys,
                                               .values = quantize.values,
                                               .scale = quantize.scale,
                                               .offsets = forward.offsets,
                                               .num_documents = forward.num_documents,
                                               .abs_max = {},
                                               .shape = forward.shape};
  Row row{.group = "fp8-attention", .name = attention_name(test, "forward"), .flops = attention_flops(test)};
  row.implementation = "hopper bf16";
  measure(report, row, *backend, timer, forward, true);
  Row copies{.group = "fp8-attention", .name = attention_name(test, "copies"), .implementation = "3 bytes an element"};
  measure(report, copies, *backend, timer, quantize, false);
  row.implementation = "hopper e4m3";
  measure(report, row, *backend, timer, on_fp8, true);
}

void bench_all_rotary(Report& report, const GpuMonitor& monitor, double seconds) {
  for (const int length : {256, 512, 1024, 4096, 16384}) {
    bench_rotary_attention(report, monitor, seconds, {16384 / length, length, 24, 8, 128, 0});
    bench_rotary_attention(report, monitor, seconds, {16384 / length, length, 32, 8, 64, 0});
  }
}

}  // namespace litespark::bench
