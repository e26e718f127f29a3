// SPDX-License-Identifier: Apache-2.0
// The streaming ops at the shapes that the benchmark models train with.
#include <cmath>

#include "core/checked.h"
#include "core/step_state.h"
#include "cuda_bench.h"

namespace litespark::bench {
namespace {

/// One micro-batch of one model.
struct ModelShape {
  const char* name;
  int64_t tokens, hidden, ffn;
  int heads, kv_heads, head_dim;
  int64_t vocab, logit_rows;
};
constexpr ModelShape kModels[] = {{"3B", 16384, 3072, 8192, 24, 8, 128, 128256, 2048},
                                  {"1B", 16384, 2048, 8192, 32, 8, 64, 128256, 2048},
                                  {"160M", 32768, 768, 2048, 12, 12, 64, 32000, 8192},
                                  {"1.6B", 8192, 1600, 4288, 25, 25, 64, 50304, 4096}};

Tensor bf16_tensor(int64_t rows, int64_t columns) {
  return {.data = nullptr, .dtype = DType::kBF16, .shape = {rows, columns}, .device = Device::kCuda};
}
Tensor f32_tensor(Shape shape) {
  return {.data = nullptr, .dtype = DType::kF32, .shape = shape, .device = Device::kCuda};
}
Tensor i32_tensor(int64_t size) {
  return {.data = nullptr, .dtype = DType::kI32, .shape = {size}, .device = Device::kCuda};
}
Tensor state_tensor() {
  return {.data = nullptr,
          .dtype = DType::kU8,
          .shape = {static_cast<int64_t>(sizeof(StepState))},
          .device = Device::kCuda};
}

std::string shape_text(const ModelShape& model, int64_t rows, int64_t columns) {
  return std::string(model.name) + " " + std::to_string(rows) + "x" + std::to_string(columns);
}

void add_norms(std::vector<BenchCase>& cases, const ModelShape& m) {
  const Tensor stream = bf16_tensor(m.tokens, m.hidden);
  const Tensor wide_stream = f32_tensor({m.tokens, m.hidden});
  const std::string shape = shape_text(m, m.tokens, m.hidden);
  const Tensor rstd = f32_tensor({m.tokens});
  const Tensor weight = f32_tensor({m.hidden});
  const Tensor partials = f32_tensor({ceil_div(m.tokens, op::kRmsNormRowsPerBlock), m.hidden});
  for (const bool is_wide : {false, true}) {
    const Tensor& residual = is_wide ? wide_stream : stream;
    const std::string label = shape + (is_wide ? " f32 stream" : " bf16");
    cases.push_back(
        {.name = "rms_norm_forward",
         .shape = label,
         .op = op::RmsNormForward<Tensor>{
             .y = stream, .rstd = rstd, .sum = residual, .x = residual, .delta = stream, .weight = weight}});
    cases.push_back({.name = "rms_norm_backward",
                     .shape = label,
                     .op = op::RmsNormBackward<Tensor>{.dresidual = residual,
                                                       .dresidual_cast = is_wide ? stream : Tensor{},
                                                       .dweight = weight,
                                                       .dy = stream,
                                                       .x = residual,
                                                       .rstd = rstd,
                                                       .weight = weight,
                                                       .partials = partials}});
  }
}

void add_block_ops(std::vector<BenchCase>& cases, const ModelShape& m) {
  const int64_t qkv_columns = int64_t{m.heads + 2 * m.kv_heads} * m.head_dim;
  const int64_t rotated = int64_t{m.heads + m.kv_heads} * m.head_dim;
  cases.push_back({.name = "swiglu_forward",
                   .shape = shape_text(m, m.tokens, m.ffn),
                   .op = op::SwiGluForward<Tensor>{
                       .h = bf16_tensor(m.tokens, m.ffn), .gate_up = bf16_tensor(m.tokens, 2 * m.ffn), .abs_max = {}}});
  cases.push_back({.name = "swiglu_backward",
                   .shape = shape_text(m, m.tokens, m.ffn),
                   .op = op::SwiGluBackward<Tensor>{.dgate_up = bf16_tensor(m.tokens, 2 * m.ffn),
                                                    .dh = bf16_tensor(m.tokens, m.ffn),
                                                    .gate_up = bf16_tensor(m.tokens, 2 * m.ffn)}});
  op::Rope<Tensor> rope{.qkv = bf16_tensor(m.tokens, qkv_columns),
                        .table = f32_tensor({4096, m.head_dim}),
                        .positions = i32_tensor(m.tokens),
                        .abs_max = {},
                        .num_rotated_heads = m.heads + m.kv_heads,
                        .num_heads_total = m.heads + 2 * m.kv_heads,
                        .head_dim = m.head_dim};
  const std::string shape = shape_text(m, m.tokens, rotated);
  const auto add_rope = [&](const std::string& suffix, int64_t bytes) {
    cases.push_back(
        {.name = "rope", .shape = shape + suffix, .op = rope, .integer_bound = 4096, .counted_bytes = bytes});
  };
  add_rope("", m.tokens * rotated * 4);
  rope.abs_max = f32_tensor({1});
  add_rope(" measured", m.tokens * (rotated * 4 + (qkv_columns - rotated) * 2));
}

/// What 8-bit matmuls add to a block: both copies of each tensor, in one read, and magnitudes where they take a pass.
void add_fp8_ops(std::vector<BenchCase>& cases, const ModelShape& m) {
  const auto fp8 = [](int64_t rows, int64_t columns) {
    Tensor tensor = bf16_tensor(rows, columns);
    tensor.dtype = DType::kE4M3;
    return tensor;
  };
  const Tensor one = f32_tensor({1});
  for (const int64_t columns : {m.hidden, m.ffn, 2 * m.ffn}) {
    const Tensor x = bf16_tensor(m.tokens, columns);
    const op::QuantizeFp8<Tensor> both{.q = fp8(m.tokens, columns),
                                       .q_transposed = fp8(columns, m.tokens),
                                       .scale = one,
                                       .column_scale = {},
                                       .x = x,
                                       .abs_max = one,
                                       .column_abs_max = {},
                                       .state = state_tensor(),
                                       .kind = op::Fp8Kind::kGradient};
    op::QuantizeFp8<Tensor> copy = both, transposed = both, by_row = both;
    copy.q_transposed = {};
    transposed.q = {};
    by_row.scale = by_row.abs_max = f32_tensor({m.tokens});
    by_row.column_scale = by_row.column_abs_max = f32_tensor({columns});
    const op::AbsMax<Tensor> abs_max{.abs_max = one, .column_abs_max = {}, .x = x};
    const op::AbsMax<Tensor> abs_max_by_row{.abs_max = by_row.abs_max, .column_abs_max = by_row.column_abs_max, .x = x};
    const std::string shape = shape_text(m, m.tokens, columns);
    cases.push_back({.name = "quantize_fp8", .shape = shape + " both", .op = both});
    cases.push_back({.name = "quantize_fp8", .shape = shape + " both by row", .op = by_row});
    cases.push_back({.name = "quantize_fp8", .shape = shape + " copy", .op = copy});
    cases.push_back({.name = "quantize_fp8", .shape = shape + " transposed", .op = transposed});
    cases.push_back({.name = "abs_max", .shape = shape, .op = abs_max});
    cases.push_back({.name = "abs_max", .shape = shape + " by row", .op = abs_max_by_row});
  }
}

/// The block's own ops when they also leave the magnitude of what they write.
void add_measuring_ops(std::vector<BenchCase>& cases, const ModelShape& m) {
  const Tensor stream = bf16_tensor(m.tokens, m.hidden);
  const Tensor wide = bf16_tensor(m.tokens, 2 * m.ffn);
  const Tensor rstd = f32_tensor({m.tokens});
  const Tensor weight = f32_tensor({m.hidden});
  const Tensor one = f32_tensor({1});
  const std::string shape = shape_text(m, m.tokens, m.hidden) + " measured";
  cases.push_back(
      {.name = "rms_norm_forward",
       .shape = shape,
       .op = op::RmsNormForward<Tensor>{
           .y = stream, .rstd = rstd, .sum = stream, .x = stream, .delta = stream, .weight = weight, .abs_max = one}});
  cases.push_back({.name = "rms_norm_backward",
                   .shape = shape,
                   .op = op::RmsNormBackward<Tensor>{
                       .dresidual = stream,
                       .dresidual_cast = {},
                       .dweight = weight,
                       .dy = stream,
                       .x = stream,
                       .rstd = rstd,
                       .weight = weight,
                       .partials = f32_tensor({ceil_div(m.tokens, op::kRmsNormRowsPerBlock), m.hidden}),
                       .abs_max = one}});
  const std::string mlp_shape = shape_text(m, m.tokens, m.ffn) + " measured";
  cases.push_back(
      {.name = "swiglu_forward",
       .shape = mlp_shape,
       .op = op::SwiGluForward<Tensor>{.h = bf16_tensor(m.tokens, m.ffn), .gate_up = wide, .abs_max = one}});
  cases.push_back({.name = "swiglu_backward",
                   .shape = mlp_shape,
                   .op = op::SwiGluBackward<Tensor>{
                       .dgate_up = wide, .dh = bf16_tensor(m.tokens, m.ffn), .gate_up = wide, .abs_max = one}});
}

/// Expected number of different values among `draws` of vocab * u^power.
int64_t distinct_ids(int64_t draws, int64_t vocab, int power) {
  double distinct = 0;
  const auto below = [&](int64_t id) {
    return std::pow(static_cast<double>(id) / static_cast<double>(vocab), 1.0 / power);
  };
  for (int64_t id = 0; id < vocab; ++id) {
    distinct += 1 - std::pow(1 - (below(id + 1) - below(id)), static_cast<double>(draws));
  }
  return static_cast<int64_t>(distinct);
}

// Counted: dout read once; rows that a token names read and written, or, without accumulation, every row written.
void add_embedding_backward(std::vector<BenchCase>& cases, const ModelShape& m) {
  struct Variant {
    const char* label;
    int power;
    bool accumulate;
  };
  for (const Variant& v : {Variant{"", 1, true}, {" frequent ids", 4, true}, {" overwritten", 1, false}}) {
    const int64_t row_bytes = v.accumulate ? 8 * distinct_ids(m.tokens, m.vocab, v.power) : 4 * m.vocab;
    cases.push_back({.name = "embedding_backward",
                     .shape = shape_text(m, m.tokens, m.hidden) + v.label,
                     .op = op::EmbeddingBackward<Tensor>{.dtable = f32_tensor({m.vocab, m.hidden}),
                                                         .dout = bf16_tensor(m.tokens, m.hidden),
                                                         .ids = i32_tensor(m.tokens),
                                                         .scratch = i32_tensor(2 * m.tokens + m.vocab + 1),
                                                         .accumulate = v.accumulate},
                     .integer_bound = m.vocab,
                     .integer_power = v.power,
                     .counted_bytes = m.hidden * (2 * m.tokens + row_bytes)});
  }
}

void add_ends(std::vector<BenchCase>& cases, const ModelShape& m) {
  const Tensor stream = bf16_tensor(m.tokens, m.hidden);
  cases.push_back({.name = "embedding_forward",
                   .shape = shape_text(m, m.tokens, m.hidden),
                   .op = op::EmbeddingForward<Tensor>{.out = stream,
                                                      .table = bf16_tensor(m.vocab, m.hidden),
                                                      .remainder = {},
                                                      .ids = i32_tensor(m.tokens),
                                                      .state = state_tensor()},
                   .integer_bound = m.vocab,
                   .counted_bytes = m.tokens * m.hidden * 4});
  add_embedding_backward(cases, m);
  cases.push_back({.name = "cross_entropy",
                   .shape = shape_text(m, m.logit_rows, m.vocab),
                   .op = op::CrossEntropy<Tensor>{.losses = f32_tensor({m.logit_rows}),
                                                  .log_sum_exp = {},
                                                  .logits = bf16_tensor(m.logit_rows, m.vocab),
                                                  .labels = i32_tensor(m.logit_rows),
                                                  .state = state_tensor()},
                   .integer_bound = m.vocab,
                   .destroys_input = true});
}

void add_optimizer(std::vector<BenchCase>& cases, int64_t size) {
  const Tensor flat = f32_tensor({size});
  const std::string shape = std::to_string(size >> 20) + "Mi parameters";
  Tensor weight = flat;
  weight.dtype = DType::kBF16;
  Tensor remainder = flat;
  remainder.dtype = DType::kU16;
  op::AdamW<Tensor> adamw{.master = flat,
                          .first_moment = flat,
                          .second_moment = flat,
                          .weight = weight,
                          .remainder = {},
                          .gradient = flat,
                          .state = state_tensor(),
                          .abs_max = {},
                          .weight_decay = 0.1};
  cases.push_back({.name = "adamw", .shape = shape, .op = adamw, .counted_bytes = size * 30});
  adamw.abs_max = f32_tensor({1});
  cases.push_back({.name = "adamw", .shape = shape + " measured", .op = adamw, .counted_bytes = size * 30});
  adamw.abs_max = {};
  adamw.master = {};
  adamw.remainder = remainder;
  cases.push_back({.name = "adamw", .shape = shape + " remainder", .op = adamw, .counted_bytes = size * 28});
  adamw.first_moment = adamw.second_moment = weight;
  cases.push_back(
      {.name = "adamw", .shape = shape + " remainder, bf16 moments", .op = adamw, .counted_bytes = size * 20});
  adamw.remainder = {};
  adamw.gradient = weight;
  cases.push_back({.name = "adamw", .shape = shape + " all bf16", .op = adamw, .counted_bytes = size * 14});
  Tensor partials = f32_tensor({ceil_div(size, op::kSquareSumBlock)});
  partials.dtype = DType::kF64;
  cases.push_back(
      {.name = "gradient_square_sum",
       .shape = shape,
       .op = op::GradientSquareSum<Tensor>{.state = state_tensor(), .gradient = flat, .partials = partials}});
  cases.push_back({.name = "convert", .shape = shape, .op = op::Convert<Tensor>{.out = weight, .x = flat}});
}

}  // namespace

std::vector<BenchCase> streaming_cases() {
  std::vector<BenchCase> cases;
  for (const ModelShape& model : kModels) {
    add_norms(cases, model);
    add_block_ops(cases, model);
    add_fp8_ops(cases, model);
    add_measuring_ops(cases, model);
    add_ends(cases, model);
  }
  const Tensor packed = bf16_tensor(16384, 5120);
  const Tensor head_weight = f32_tensor({128});
  cases.push_back({.name = "head_norm_forward",
                   .shape = "16384 tokens, 24/8 heads of 128",
                   .op = op::HeadNormForward<Tensor>{.out = packed,
                                                     .rstd = f32_tensor({16384, 32}),
                                                     .qkv = packed,
                                                     .q_weight = head_weight,
                                                     .k_weight = head_weight,
                                                     .num_heads = 24,
                                                     .num_kv_heads = 8,
                                                     .head_dim = 128}});
  cases.push_back({.name = "head_norm_backward",
                   .shape = "16384 tokens, 24/8 heads of 128",
                   .op = op::HeadNormBackward<Tensor>{.dqkv = packed,
                                                      .dq_weight = head_weight,
                                                      .dk_weight = head_weight,
                                                      .qkv = packed,
                                                      .rstd = f32_tensor({16384, 32}),
                                                      .q_weight = head_weight,
                                                      .k_weight = head_weight,
                                                      .partials = f32_tensor({256, 256}),
                                                      .num_heads = 24,
                                                      .num_kv_heads = 8,
                                                      .head_dim = 128},
                   .counted_bytes = int64_t{16384} * 32 * 128 * 6});
  cases.push_back(
      {.name = "bias_backward",
       .shape = "16384x5120",
       .op = op::BiasBackward<Tensor>{.dbias = f32_tensor({5120}), .dy = packed, .partials = f32_tensor({64, 5120})}});
  const Tensor losses = f32_tensor({16384});
  cases.push_back({.name = "loss_reduce",
                   .shape = "16384 rows",
                   .op = op::LossReduce<Tensor>{
                       .state = state_tensor(), .losses = losses, .log_sum_exp = {}, .labels = i32_tensor(16384)}});
  cases.push_back({.name = "step_decision",
                   .shape = "1",
                   .op = op::StepDecision<Tensor>{.state = state_tensor()},
                   .counted_bytes = 1});
  add_optimizer(cases, int64_t{128} << 20);
  return cases;
}

}  // namespace litespark::bench
