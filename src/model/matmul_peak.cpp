// SPDX-License-Identifier: Apache-2.0
#include "model/matmul_peak.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "core/bf16.h"
#include "core/error.h"
#include "meter/energy.h"
#include "model/probe_matmul.h"

namespace litespark {
namespace {

constexpr int64_t kRows = 512;
constexpr int64_t kFeatures = 1024;

/// One shape, by its first op on the tape.
struct Product {
  op::MatmulForward<Tensor> op;
  std::optional<op::PackWeight<Tensor>> pack;  ///< of a weight whose packed copy does not stay
  double flops = 0;                            ///< of one run
  int count = 0;                               ///< runs in a forward pass
  std::vector<double> seconds;

  auto key() const { return std::tuple(op.y.rows(), op.in_features, op.out_features, op.y.dtype); }
  double median() {
    const auto middle = seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2);
    std::nth_element(seconds.begin(), middle, seconds.end());
    return *middle;
  }
};

std::vector<Product> forward_products(const Executor& executor) {
  const Phase phase = executor.program().options.stages > 1 ? Phase::kTrainStep : Phase::kTrainFirst;
  const Tape* const tape = executor.program().tape(phase);
  if (tape == nullptr) throw InternalError("matmul_peak", "the program does not train");
  std::vector<Product> products;
  std::map<const void*, op::PackWeight<Tensor>> packs;
  for (const TapeEntry& entry : tape->entries()) {
    if (!entry.scope.starts_with("forward.")) continue;  // recomputed products come with the backward pass
    const op::AnyOp<Tensor> bound = bind_op(entry.op, [&](TensorId id) { return executor.tensor(id); });
    if (const auto* const pack = std::get_if<op::PackWeight<Tensor>>(&bound))
      packs.insert_or_assign(pack->packed.data, *pack);
    const auto* const op = std::get_if<op::MatmulForward<Tensor>>(&bound);
    if (op == nullptr || op->y.num_elements() == 0) continue;
    Product product{
        .op = *op, .flops = 2.0 * static_cast<double>(op->y.num_elements() * op->in_features), .seconds = {}};
    if (const auto pack = packs.find(op->packed.data); op->packed.has_value() && pack != packs.end())
      product.pack = pack->second;
    auto same = std::find_if(products.begin(), products.end(),
                             [&](const Product& other) { return other.key() == product.key(); });
    if (same == products.end()) same = products.insert(products.end(), std::move(product));
    ++same->count;
  }
  return products;
}

/// Small numbers of both signs: zeros would spare the machine work that real values ask for.
void fill(Backend& backend, const Tensor& tensor) {
  const auto count = static_cast<size_t>(tensor.num_elements());
  const auto value = [](size_t i) { return static_cast<float>(static_cast<int>(i * 2654435761u >> 7 & 255) - 128); };
  if (tensor.dtype == DType::kBF16) {
    std::vector<bf16> values(count);
    for (size_t i = 0; i < count; ++i) values[i] = to_bf16(value(i) / 128.0f);
    backend.copy_to_device(tensor.data, values.data(), tensor.bytes());
  } else {
    std::vector<float> values(count);
    for (size_t i = 0; i < count; ++i) values[i] = value(i) / 128.0f;
    backend.copy_to_device(tensor.data, values.data(), tensor.bytes());
  }
}

}  // namespace

MatmulPeak measure_matmul_peak(Executor& executor, double seconds) {
  std::vector<Product> products = forward_products(executor);
  Backend& backend = executor.backend();
  const double start = monotonic_seconds();
  do {
    for (Product& product : products) {
      // The products' tensors share the arena, so each gets its operands back; also warms the caches as a step does.
      if (product.pack) backend.run(*product.pack);
      fill(backend, product.op.x);
      backend.synchronize();
      const double before = monotonic_seconds();
      backend.run(product.op);
      backend.synchronize();
      product.seconds.push_back(monotonic_seconds() - before);
    }
  } while (monotonic_seconds() - start < seconds);
  double flops = 0;
  double total = 0;
  for (Product& product : products) {
    flops += product.count * product.flops;
    total += product.count * product.median();
  }
  return {.flops_per_second = flops / total, .num_shapes = static_cast<int>(products.size())};
}

double measure_matmul_rate(Backend& backend, DType compute, double seconds) {
  ProbeMatmul product(backend, compute, {.rows = kRows, .in_features = kFeatures, .out_features = kFeatures});
  product.set_random();
  const double start = monotonic_seconds();
  double best = 0;
  do {
    backend.synchronize();
    const double before = monotonic_seconds();
    product.run();
    backend.synchronize();
    const double flops = 2.0 * static_cast<double>(kRows) * static_cast<double>(kFeatures * kFeatures);
    best = std::max(best, flops / (monotonic_seconds() - before));
  } while (monotonic_seconds() - start < seconds);
  return best;
}

}  // namespace litespark
