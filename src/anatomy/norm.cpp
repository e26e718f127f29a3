// SPDX-License-Identifier: Apache-2.0
#include "anatomy/norm.h"

#include <algorithm>
#include <cmath>

#include "core/bf16.h"
#include "plan/memory_table.h"

namespace litespark::anatomy {
namespace {

double norm_of(Backend& backend, const Tensor& tensor) {
  double squares = 0;
  visit_float_dtype("norm", tensor.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    std::vector<T> values(static_cast<size_t>(tensor.num_elements()));
    backend.copy_to_host(values.data(), tensor.data, tensor.bytes());
    for (const T& value : values) squares += static_cast<double>(load_float(value)) * load_float(value);
  });
  return std::sqrt(squares);
}

/// Looks at the stream's gradient behind every norm's backward; the last look at a layer counts.
class StreamWatcher final : public OpObserver {
 public:
  StreamWatcher(const Executor& executor, StreamGradients& found) : executor_(executor), found_(found) {}
  void before(const TapeEntry&) override {}
  void after(const TapeEntry& entry) override {
    const auto* const op = std::get_if<op::RmsNormBackward<TensorId>>(&entry.op);
    if (op == nullptr) return;
    const double norm = norm_of(executor_.backend(), executor_.tensor(op->dresidual));
    (entry.layer < 0 ? found_.top : found_.layers.at(static_cast<size_t>(entry.layer))) = norm;
  }

 private:
  const Executor& executor_;
  StreamGradients& found_;
};

/// Peaks of forward and of backward, all that lives at them.
struct Peaks {
  double forward = 0;
  double backward = 0;
};

Peaks planned_peaks(const BackendSizes& backend_sizes, const ModelSizes& sizes, Recompute recompute, bool accumulates) {
  ProgramOptions options = train_options(sizes, DType::kBF16);
  options.recompute = recompute;
  options.accumulates = accumulates;
  const MemoryTable table = make_memory_table(make_llama_program(sizes.config(), options, backend_sizes));
  Peaks peaks;
  for (const StretchPeak& stretch : table.stretches) {
    if (!stretch.name.starts_with("train_")) continue;
    double& peak = stretch.name.ends_with("forward") ? peaks.forward : peaks.backward;
    peak = std::max(peak, static_cast<double>(table.persistent_bytes + stretch.live_bytes));
  }
  return peaks;
}

/// The claim's two models as Llamas of the same width and depth; it names no length: 512.
constexpr ModelSizes kSmall = {.vocab = 50304,
                               .hidden = 768,
                               .ffn = 2048,
                               .layers = 12,
                               .heads = 12,
                               .kv_heads = 12,
                               .sequences = 32,
                               .length = 512};
constexpr ModelSizes kMedium = {.vocab = 50304,
                                .hidden = 1024,
                                .ffn = 2816,
                                .layers = 24,
                                .heads = 16,
                                .kv_heads = 16,
                                .sequences = 16,
                                .length = 512};

Table peak_table(const BackendSizes& backend_sizes) {
  struct Row {
    const char* name;
    const ModelSizes* sizes;
    Recompute recompute;
    const char* published;
  };
  const Row rows[] = {{"12 x 768, 32 x 512", &kSmall, Recompute::kNone, "1840 -> 4120 MB, 2.2 x"},
                      {"  norm-act", &kSmall, Recompute::kNormAct, ""},
                      {"  block", &kSmall, Recompute::kBlock, ""},
                      {"24 x 1024, 16 x 512", &kMedium, Recompute::kNone, "3960 -> 8750 MB, 2.2 x"},
                      {"  norm-act", &kMedium, Recompute::kNormAct, ""},
                      {"  block", &kMedium, Recompute::kBlock, ""}};
  Table table{.key = "peaks",
              .title = "planned memory at the worst op, weights and optimizer included",
              .columns = {"model, recompute", "forward", "backward", "ratio", "claim:C8"},
              .rows = {}};
  for (const Row& row : rows) {
    const Peaks peaks = planned_peaks(backend_sizes, *row.sizes, row.recompute, false);
    table.rows.push_back({words(row.name), bytes_value(peaks.forward), bytes_value(peaks.backward),
                          factor(peaks.backward / peaks.forward), words(row.published)});
  }
  return table;
}

Table layer_table(const StreamGradients& gradients) {
  Table table{.key = "layers",
              .title = "gradient of the residual stream below each block",
              .columns = {"layer", "norm", "over the block above"},
              .rows = {}};
  double above = gradients.top;
  for (auto layer = std::ssize(gradients.layers) - 1; layer >= 0; --layer) {
    const double norm = gradients.layers[static_cast<size_t>(layer)];
    table.rows.push_back({quantity(static_cast<double>(layer), "", 0), quantity(norm, "", 4), factor(norm / above)});
    above = norm;
  }
  return table;
}

}  // namespace

StreamGradients stream_gradients(PreparedModel& model) {
  Executor& executor = model.executor();
  StreamGradients found;
  found.layers.resize(static_cast<size_t>(executor.program().config.num_hidden_layers));
  StreamWatcher watcher(executor, found);
  executor.set_observer(&watcher);
  model.run();
  executor.set_observer(nullptr);
  return found;
}

Chapter norm_chapter(Backend& backend, const MeasureOptions& options, const ModelSizes& sizes) {
  PreparedModel model(backend, sizes, train_options(sizes, options.compute));
  const StreamGradients gradients = stream_gradients(model);
  const Peaks once = planned_peaks(backend.sizes(), kSmall, Recompute::kNone, false);
  const Peaks accumulated = planned_peaks(backend.sizes(), kSmall, Recompute::kNone, true);
  Chapter chapter{.name = "norm", .title = "norms and the residual stream on the way back"};
  chapter.setup = {{"model", sizes.text()},
                   {"weights", "fresh, of the seed; compute " + std::string(dtype_name(options.compute))}};
  chapter.findings = {
      {.key = "growth",
       .what = "gradient's norm, bottom over top",
       .ours = factor(gradients.layers.front() / gradients.top),
       .claim = "C8",
       .published = "about 2.1 x",
       .advice = "growth of a few times is what clipping is for; dividing o_proj and down_proj by sqrt(2 L), as fresh "
                 "weights here are, keeps it from growing with depth"},
      {.key = "peak_ratio",
       .what = "backward's peak over forward's, 12 x 768 (planned)",
       .ours = factor(once.backward / once.forward),
       .claim = "C8",
       .published = "2.2 x (1840 -> 4120 MB)",
       .advice = "backward frees a block's activations as it goes, so its peak is forward's end and not twice of it; "
                 "memory.recompute = \"norm-act\" or \"block\" brings both down"},
      {.key = "accumulation",
       .what = "peak with accumulation over without (planned)",
       .ours = factor(accumulated.backward / once.backward),
       .claim = "C8",
       .published = "1.8 to 2.3 x",
       .advice = "gradients are added in place: accumulation costs no memory"}};
  chapter.tables = {layer_table(gradients), peak_table(backend.sizes())};
  return chapter;
}

}  // namespace litespark::anatomy
