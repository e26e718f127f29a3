// SPDX-License-Identifier: Apache-2.0
// Times the matmuls and the attention of the shapes that Litespark is measured by, through the backend's own ops:
//   bench_cuda_matmul_attention [matmul|fp8|attention|fp8-attention|rotated|backward|all] [--json=FILE] [--seconds=0.3]
//   [--model=1.6B] [--search=none,quick,thorough] [--heads=96,256]
// `backward` compares cuDNN's attention with our Hopper kernels, in the fixed and in free order, on models' shapes.
// --heads leaves the sizes of heads that it does not name out of both.
// `fp8-attention` compares our Hopper forward in bf16 with the one on 8-bit floats, and times what makes its copies.
// `rotated` compares rotary positions as an op before our Hopper forward with the form that rotates tiles on load, and
// as an op behind our backward with gradients that it rotates back. `fp8` times the three products of the blocks'
// layers on 8-bit copies, with sums in f32 and in the tensor cores' accumulators, with one scale a tensor and one a
// row, beside the same in bf16.
// --search names how matmul algorithms are chosen: the library's first guess, the timed choice, the thorough one.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <span>
#include <string_view>

#include "attention_benches.h"
#include "bench_report.h"
#include "core/error.h"
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
  if (all || arguments.what == "rotated") bench_all_rotary(report, monitor, arguments.seconds);
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
