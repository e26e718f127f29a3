// SPDX-License-Identifier: Apache-2.0
// Times the MLP's products with SwiGLU inside against cuBLASLt's product and SwiGLU behind it, in turns:
//   bench_cuda_gated [--seconds=0.5] [--turns=3] [--json=FILE]
// The share below is time apart over time joined, of the medians of all turns: above 1 the one kernel wins.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <string_view>

#include "op_timer.h"
#include "ops/cuda/cuda_backend_impl.h"
#include "ops/cuda/gated_product.h"

namespace litespark::bench {
namespace {

struct Mlp {
  const char* name;
  int64_t tokens, hidden, ffn;
};

constexpr Mlp kMlps[] = {{"3B", 16384, 3072, 8192},
                         {"7B", 16384, 4096, 11008},
                         {"1B", 16384, 2048, 8192},
                         {"1.6B", 8192, 1600, 4288},
                         {"160M", 32768, 768, 2048}};

struct Arguments {
  double seconds = 0.5;
  int turns = 3;
  std::string json;
};

struct Session {
  cuda::CudaBackend backend{CudaOptions{}};
  GpuMonitor monitor;
  std::vector<Row> rows;
};

double median_seconds(std::vector<Row> rows) {
  std::sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.seconds < b.seconds; });
  return rows[rows.size() / 2].seconds;
}

template <class Op>
void compare(Session& session, const Arguments& arguments, const Row& row, const Op& op) {
  session.backend.prepare(op);  // times cuBLASLt's algorithms, and both ways
  const OpTimer timer(session.backend, session.monitor, arguments.seconds);
  std::vector<Row> apart, joined;
  const auto measure = [&](std::vector<Row>& rows, const char* way, const auto& body) {
    rows.push_back(row);
    rows.back().implementation = way;
    timer.time(rows.back(), body);
    print_row(rows.back());
    session.rows.push_back(rows.back());
  };
  for (int turn = 0; turn < arguments.turns; ++turn) {
    measure(apart, "apart", [&] { session.backend.run_apart(op); });
    measure(joined, "joined", [&] { session.backend.run_joined(op); });
  }
  std::printf("%s: apart / joined %.3f\n", row.name.c_str(), median_seconds(apart) / median_seconds(joined));
}

void bench_mlp(Session& session, const Arguments& arguments, const Mlp& mlp) {
  CaseTensors tensors(session.backend);
  const float scale = 1 / std::sqrt(static_cast<float>(mlp.hidden));
  const auto random = [&](int64_t rows, int64_t columns, float size) {
    return tensors.random(DType::kBF16, {rows, columns}, size);
  };
  const BackendSizes& sizes = session.backend.sizes();
  const LinearShape shape{.rows = mlp.tokens, .in_features = mlp.hidden, .out_features = 2 * mlp.ffn};
  const Tensor stream = random(mlp.tokens, mlp.hidden, 1);
  const Tensor gate_up = random(mlp.tokens, 2 * mlp.ffn, 1);
  const std::string what = std::string(mlp.name) + " [" + std::to_string(mlp.tokens) + "] " +
                           std::to_string(mlp.hidden) + " and " + std::to_string(mlp.ffn);
  const double flops = 2.0 * static_cast<double>(mlp.tokens * mlp.hidden * mlp.ffn);
  compare(session, arguments, {.group = "gated", .name = what + " forward", .flops = 2 * flops},
          op::GatedForward<Tensor>{.gate_up = gate_up,
                                   .h = random(mlp.tokens, mlp.ffn, 1),
                                   .x = stream,
                                   .weight = random(2 * mlp.ffn, mlp.hidden, scale),
                                   .scratch = tensors.scratch(sizes.matmul_forward_scratch_bytes(shape))});
  const int64_t scratch =
      op::gated_gradient_bytes(mlp.tokens, mlp.ffn, DType::kBF16) + sizes.matmul_backward_input_scratch_bytes(shape);
  compare(session, arguments, {.group = "gated", .name = what + " backward", .flops = flops},
          op::GatedBackward<Tensor>{.dgate_up = random(mlp.tokens, 2 * mlp.ffn, 1),
                                    .gate_up = random(mlp.tokens, 2 * mlp.ffn, 1),
                                    .dout = stream,
                                    .weight = random(mlp.hidden, mlp.ffn, scale),
                                    .scratch = tensors.scratch(scratch)});
}

Arguments parse(int count, char** values) {
  Arguments arguments;
  for (int i = 1; i < count; ++i) {
    const std::string_view value = values[i];
    if (value.starts_with("--seconds=")) arguments.seconds = std::stod(std::string(value.substr(10)));
    if (value.starts_with("--turns=")) arguments.turns = std::stoi(std::string(value.substr(8)));
    if (value.starts_with("--json=")) arguments.json = value.substr(7);
  }
  return arguments;
}

int run(const Arguments& arguments) {
  Session session;
  std::printf("%s\n", session.backend.name().c_str());
  if (!cuda::has_gated_product(DType::kBF16, 64, 64, session.backend.context())) {
    std::printf("no kernel for this part\n");
    return 1;
  }
  for (const Mlp& mlp : kMlps) bench_mlp(session, arguments, mlp);
  for (const auto& [key, choice] : session.backend.tuning()) {
    if (key.starts_with("gated")) std::printf("%s: %s\n", key.c_str(), choice.c_str());
  }
  if (!arguments.json.empty()) std::ofstream(arguments.json) << to_json(session.backend.name(), session.rows);
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
