// SPDX-License-Identifier: Apache-2.0
// Times the matmuls and the attention of the shapes that Litespark is measured by, through the backend's own ops:
//   bench_cuda_matmul_attention [matmul|fp8|attention|fp8-attention|turned|backward|all] [--json=FILE] [--seconds=0.3]
//   [--model=1.6B] [--search=none,quick,thorough] [--heads=96,256]
// `backward` compares cuDNN's attention with our Hopper kernels, in the fixed and in free order, on models' shapes.
// --heads leaves the sizes of heads that it does not name out of both.
// `fp8-attention` compares our Hopper forward in bf16 with the one on 8-bit floats, and times what makes its copies.
// `turned` compares rotary positions as an op before our Hopper forward with the form that turns tiles on load, and as
// an op behind our backward with gradients that it turns back.
// `fp8` times the three products of the blocks' layers on 8-bit copies, with sums in f32 and in the tensor cores'
// accumulators, with one scale a tensor and one a row, beside the same in bf16.
// --search names how matmul algorithms are chosen: the library's first guess, the timed choice, the thorough one.
#include <bit>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <span>
#include <string_view>

#include "core/bf16.h"
#include "core/error.h"
#include "op_timer.h"
#include "ops/cuda/cuda_backend.h"

namespace litespark::bench {
namespace {

struct Model {
  const char* name;
  int64_t tokens;
  int hidden, heads, kv_heads, head_dim, ffn, vocab;
};

constexpr Model kModels[] = {
    {"3B", 16384, 3072, 24, 8, 128, 8192, 128256},
    {"1B", 16384, 2048, 32, 8, 64, 8192, 128256},
    {"160M", 32768, 768, 12, 12, 64, 2048, 32000},
    {"1.6B", 8192, 1600, 25, 25, 64, 4288, 50304},
};

struct Layer {
  const char* name;
  int64_t rows, in_features, out_features;
};

/// The head runs on chunks of tokens, so that its logits stay small.
std::vector<Layer> layers_of(const Model& model) {
  const int64_t head_rows = std::min<int64_t>(model.tokens, 4096);
  const int64_t q_features = int64_t{model.heads} * model.head_dim;
  const int64_t qkv_features = int64_t{model.heads + 2 * model.kv_heads} * model.head_dim;
  return {{"qkv", model.tokens, model.hidden, qkv_features},
          {"o", model.tokens, q_features, model.hidden},
          {"gate_up", model.tokens, model.hidden, 2 * model.ffn},
          {"down", model.tokens, model.ffn, model.hidden},
          {"head", head_rows, model.hidden, model.vocab}};
}

struct Report {
  std::vector<Row> rows;
  void add(Row row) {
    print_row(row);
    rows.push_back(std::move(row));
  }
};

/// Times `op` after its preparation; a failure becomes a row that says so.
template <class Op>
void measure(Report& report, Row row, Backend& backend, const OpTimer& timer, const Op& op, bool prepare) {
  try {
    if (prepare) backend.prepare(op);
    timer.time(row, [&] { backend.run(op); });
  } catch (const Error& error) {
    row.error = error.what();
  }
  report.add(std::move(row));
}

void bench_layer(Report& report, Backend& backend, const OpTimer& timer, const Model& model, const Layer& layer,
                 const std::string& search) {
  const bool tuned = search != "none";
  CaseTensors tensors(backend);
  const LinearShape shape{.rows = layer.rows,
                          .in_features = layer.in_features,
                          .out_features = layer.out_features,
                          .compute = DType::kBF16};
  const Tensor x = tensors.random(DType::kBF16, {layer.rows, layer.in_features});
  const Tensor y = tensors.random(DType::kBF16, {layer.rows, layer.out_features});
  const Tensor weight = tensors.random(DType::kBF16, {layer.out_features, layer.in_features}, 0.02f);
  const Tensor dweight = tensors.zeros(DType::kF32, {layer.out_features, layer.in_features});
  const Tensor scratch = tensors.scratch(backend.sizes().matmul_forward_scratch_bytes(shape));
  const auto row = [&](const char* pass) {
    const std::string name = std::string(model.name) + " " + layer.name + " " + pass + " [" +
                             std::to_string(layer.rows) + "] " + std::to_string(layer.in_features) + " -> " +
                             std::to_string(layer.out_features);
    return Row{.group = "matmul",
               .name = name,
               .implementation = "cublaslt " + (tuned ? search : "first guess"),
               .flops = 2.0 * static_cast<double>(layer.rows * layer.in_features * layer.out_features)};
  };
  const op::MatmulForward<Tensor> forward{.y = y,
                                          .x = x,
                                          .weight = weight,
                                          .scratch = scratch,
                                          .in_features = layer.in_features,
                                          .out_features = layer.out_features};
  const op::MatmulBackwardInput<Tensor> input{.dx = x,
                                              .dy = y,
                                              .weight = weight,
                                              .scratch = scratch,
                                              .in_features = layer.in_features,
                                              .out_features = layer.out_features};
  const op::MatmulBackwardWeight<Tensor> weights{
      .dweight = dweight, .dy = y, .x = x, .scratch = scratch, .accumulate = true};
  measure(report, row("forward"), backend, timer, forward, tuned);
  const Tensor fresh_y = tensors.random(DType::kBF16, {layer.rows, layer.out_features});
  op::MatmulBackwardInput<Tensor> fresh_input = input;
  fresh_input.dy = fresh_y;
  measure(report, row("backward input"), backend, timer, fresh_input, tuned);
  const Tensor fresh_x = tensors.random(DType::kBF16, {layer.rows, layer.in_features});
  op::MatmulBackwardWeight<Tensor> fresh_weights = weights;
  fresh_weights.dy = fresh_y;
  fresh_weights.x = fresh_x;
  measure(report, row("backward weight"), backend, timer, fresh_weights, tuned);
}

/// The products of one layer on 8-bit copies, as the tape has them: y = x w^T, dx = dy (w^T)^T, dw = dy^T (x^T)^T.
void bench_fp8_layer(Report& report, Backend& backend, const OpTimer& timer, const Model& model, const Layer& layer) {
  struct Product {
    const char* pass;
    int64_t rows, columns, depth;
    DType out;
  };
  const Product products[] = {{"forward", layer.rows, layer.out_features, layer.in_features, DType::kBF16},
                              {"backward input", layer.rows, layer.in_features, layer.out_features, DType::kBF16},
                              {"backward weight", layer.out_features, layer.in_features, layer.rows, DType::kF32}};
  for (const Product& product : products) {
    CaseTensors tensors(backend);
    op::ScaledMatmul<Tensor> op{.out = tensors.zeros(product.out, {product.rows, product.columns}),
                                .a = tensors.random(DType::kE4M3, {product.rows, product.depth}, 100.0f),
                                .b = tensors.random(DType::kE4M3, {product.columns, product.depth}, 100.0f),
                                .a_scale = {},
                                .b_scale = {},
                                .bias = {},
                                .scratch = tensors.scratch(backend.sizes().scaled_matmul_scratch_bytes(0, false))};
    const std::string name = std::string(model.name) + " " + layer.name + " " + product.pass + " [" +
                             std::to_string(layer.rows) + "] " + std::to_string(layer.in_features) + " -> " +
                             std::to_string(layer.out_features);
    for (const bool by_row : {false, true}) {
      op.a_scale = tensors.random(DType::kF32, {by_row ? product.rows : 1}, 0.01f);
      op.b_scale = tensors.random(DType::kF32, {by_row ? product.columns : 1}, 0.01f);
      for (const bool is_fast : {true, false}) {
        op.is_fast = is_fast;
        measure(report,
                {.group = "fp8",
                 .name = name,
                 .implementation = std::string("e4m3, scale a ") + (by_row ? "row" : "tensor") +
                                   (is_fast ? ", fast sums" : ", promoted sums"),
                 .flops = 2.0 * static_cast<double>(product.rows * product.columns * product.depth)},
                backend, timer, op, true);
      }
    }
  }
}

struct AttentionCase {
  int batch, length, heads, kv_heads, head_dim, window;
};

/// Heads of 96 as in Phi-3-mini, of 256 as in Gemma.
constexpr AttentionCase kOtherHeads[] = {
    {16, 1024, 32, 32, 96, 0}, {8, 2048, 32, 32, 96, 0},  {4, 4096, 32, 32, 96, 0}, {4, 4096, 32, 8, 96, 0},
    {1, 16384, 32, 32, 96, 0}, {16, 1024, 16, 8, 256, 0}, {8, 2048, 16, 8, 256, 0}, {4, 4096, 16, 8, 256, 0},
    {4, 4097, 16, 8, 256, 0},  {1, 16384, 16, 8, 256, 0}};

/// 16k tokens in every case: what changes is how they are divided.
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

/// Shapes of whole models: 3B at five lengths, 1B (also one document of 128k tokens), 160M, 1.6B; heads that share no
/// keys, an odd length, a window; other sizes of heads.
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

/// 4 T^2 D H / 2 for the causal half; windows counted exactly.
double attention_flops(const AttentionCase& test) {
  double pairs = 0;
  for (int query = 0; query < test.length; ++query) {
    pairs += test.window > 0 ? std::min(query + 1, test.window) : query + 0.5;
  }
  return 4.0 * pairs * test.head_dim * test.heads * test.batch;
}

std::string attention_name(const AttentionCase& test, const char* pass) {
  std::string name = "B=" + std::to_string(test.batch) + " T=" + std::to_string(test.length) +
                     " H=" + std::to_string(test.heads) + "/" + std::to_string(test.kv_heads) +
                     " D=" + std::to_string(test.head_dim);
  if (test.window > 0) name += " window=" + std::to_string(test.window);
  return name + " " + pass;
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

/// Heads of 128 at five lengths, without groups, documents that begin within a group of 16 rows, a window.
std::vector<AttentionCase> fp8_attention_cases() {
  std::vector<AttentionCase> cases;
  for (const AttentionCase& test : attention_cases()) {
    if (test.head_dim == 128) cases.push_back(test);
  }
  return cases;
}

/// The forward in bf16 and on 8-bit floats, and the copies that the latter reads.
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

/// op::Rope beside kernels that turn themselves, in both directions and with a table in either dtype.
void bench_turned_attention(Report& report, const GpuMonitor& monitor, double seconds, const AttentionCase& test) {
  const auto backend = make_cuda_backend({.attention = AttentionKind::kHopper});
  const OpTimer timer(*backend, monitor, seconds);
  CaseTensors tensors(*backend);
  const auto [forward, backward] = attention_ops(*backend, tensors, test);
  std::vector<int32_t> positions;
  for (int i = 0; i < test.batch * test.length; ++i) positions.push_back(i % test.length);
  op::AttentionForward<Tensor> turned = forward;
  op::AttentionBackward<Tensor> turned_back = backward;
  turned.positions = turned_back.positions = tensors.integers(positions);
  turned.turned = tensors.zeros(DType::kBF16, forward.qkv.shape);
  backend->prepare(forward);
  backend->prepare(backward);
  const auto time = [&](const char* direction, const std::string& implementation, DType dtype, const auto& run) {
    Row row{.group = "turned", .name = attention_name(test, direction), .flops = attention_flops(test)};
    if (std::string_view(direction) == "backward") row.flops *= 2.5;
    row.implementation = implementation + ", angles in " + std::string(dtype_name(dtype));
    timer.time(row, run);
    report.add(std::move(row));
  };
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    turned.table = turned_back.table = angle_table(tensors, dtype, test.length, test.head_dim);
    time("forward", "rope, then forward", dtype, [&] {
      backend->run(op::turn_of(turned, turned.qkv, false));
      backend->run(forward);
    });
    time("forward", "turned on load", dtype, [&] { backend->run(turned); });
    time("backward", "backward, then rope", dtype, [&] {
      backend->run(backward);
      backend->run(op::turn_of(turned_back, backward.dqkv, true));
    });
    time("backward", "turned back on store", dtype, [&] { backend->run(turned_back); });
  }
}

void bench_all_turned(Report& report, const GpuMonitor& monitor, double seconds) {
  for (const int length : {256, 512, 1024, 4096, 16384}) {
    bench_turned_attention(report, monitor, seconds, {16384 / length, length, 24, 8, 128, 0});
    bench_turned_attention(report, monitor, seconds, {16384 / length, length, 32, 8, 64, 0});
  }
}

struct Arguments {
  std::string what = "all";
  std::string json;
  double seconds = 0.3;
  std::string model;  ///< empty: all
  std::string search = "none,quick";
  std::string heads;  ///< empty: all

  bool wants(const AttentionCase& test) const {
    return heads.empty() || ("," + heads + ",").find("," + std::to_string(test.head_dim) + ",") != std::string::npos;
  }
};

void bench_all_matmuls(Report& report, const GpuMonitor& monitor, const Arguments& arguments) {
  for (const std::string search : {"none", "quick", "thorough"}) {
    if (arguments.search.find(search) == std::string::npos) continue;
    const auto backend =
        make_cuda_backend({.matmul_search = search == "thorough" ? MatmulSearch::kThorough : MatmulSearch::kQuick});
    const OpTimer timer(*backend, monitor, arguments.seconds);
    for (const Model& model : kModels) {
      if (!arguments.model.empty() && arguments.model != model.name) continue;
      for (const Layer& layer : layers_of(model)) bench_layer(report, *backend, timer, model, layer, search);
    }
  }
}

void bench_all_fp8(Report& report, const GpuMonitor& monitor, const Arguments& arguments) {
  const auto backend = make_cuda_backend({});
  const OpTimer timer(*backend, monitor, arguments.seconds);
  for (const Model& model : kModels) {
    if (!arguments.model.empty() && arguments.model != model.name) continue;
    for (const Layer& layer : layers_of(model)) {
      if (std::string_view(layer.name) == "head") continue;
      bench_layer(report, *backend, timer, model, layer, "quick");
      bench_fp8_layer(report, *backend, timer, model, layer);
    }
  }
}

struct Mode {
  const char* name;
  CudaOptions options;
};
const Mode kModes[] = {{"deterministic", {.deterministic = true, .attention = AttentionKind::kCudnn}},
                       {"free order", {.deterministic = false, .attention = AttentionKind::kCudnn}},
                       {"deterministic", {.deterministic = true, .attention = AttentionKind::kHopper}},
                       {"free order", {.deterministic = false, .attention = AttentionKind::kHopper}},
                       {"deterministic", {.deterministic = true, .attention = AttentionKind::kPortable}}};

void bench_all_attention(Report& report, const GpuMonitor& monitor, const Arguments& arguments,
                         const std::vector<AttentionCase>& cases, std::span<const Mode> modes) {
  for (const AttentionCase& test : cases) {
    if (!arguments.wants(test)) continue;
    for (const Mode& mode : modes) {
      try {
        bench_attention(report, mode.options, mode.name, monitor, arguments.seconds, test);
      } catch (const Error& error) {
        report.add({.group = "attention",
                    .name = attention_name(test, ""),
                    .implementation = mode.name,
                    .error = error.what()});
      }
    }
  }
}

Arguments parse(int count, char** values) {
  Arguments arguments;
  for (int i = 1; i < count; ++i) {
    const std::string_view value = values[i];
    if (value.starts_with("--json=")) {
      arguments.json = value.substr(7);
    } else if (value.starts_with("--seconds=")) {
      arguments.seconds = std::stod(std::string(value.substr(10)));
    } else if (value.starts_with("--model=")) {
      arguments.model = value.substr(8);
    } else if (value.starts_with("--search=")) {
      arguments.search = value.substr(9);
    } else if (value.starts_with("--heads=")) {
      arguments.heads = value.substr(8);
    } else {
      arguments.what = value;
    }
  }
  return arguments;
}

int run(const Arguments& arguments) {
  const GpuMonitor monitor;
  Report report;
  const std::string device = make_cuda_backend({})->name();
  std::printf("%s\n", device.c_str());
  const bool all = arguments.what == "all";
  if (all || arguments.what == "matmul") bench_all_matmuls(report, monitor, arguments);
  if (all || arguments.what == "fp8") bench_all_fp8(report, monitor, arguments);
  if (all || arguments.what == "attention") {
    bench_all_attention(report, monitor, arguments, attention_cases(), kModes);
  }
  if (all || arguments.what == "fp8-attention") {
    for (const AttentionCase& test : fp8_attention_cases()) {
      bench_fp8_attention(report, monitor, arguments.seconds, test);
    }
  }
  if (all || arguments.what == "turned") bench_all_turned(report, monitor, arguments.seconds);
  if (arguments.what == "backward") {
    bench_all_attention(report, monitor, arguments, backward_cases(), std::span(kModes).first(4));
  }
  if (!arguments.json.empty()) std::ofstream(arguments.json) << to_json(device, report.rows);
  return 0;
}

}  // namespace
}  // namespace litespark::bench

int main(int count, char** values) {
  try {
    return litespark::bench::run(litespark::bench::parse(count, values));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
