// SPDX-License-Identifier: Apache-2.0
// Where the time of a CPU training step goes: `bench_cpu_step RUN.toml STEPS [--section.key=value ...]` times every op
// of every step and prints a line for each kind of op. Least times are those of a quiet machine.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include "core/error.h"
#include "data/synthetic_source.h"
#include "io/run_file.h"
#include "model/executor.h"
#include "model/weights.h"
#include "ops/cpu/cpu_backend.h"
#include "spec/flops.h"
#include "spec/run_config.h"
#include "spec/run_program.h"
#include "train/run_options.h"
#include "train/trainer.h"

namespace litespark {
namespace {

double milliseconds_now() {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Multiply-adds twice; attention counts its causal half.
double flops_of(const op::AnyOp<TensorId>& any, const TensorTable& tensors) {
  const auto shape = [&](TensorId id) { return tensors[id].shape; };
  const auto attention = [&](TensorId qkv, const op::AttentionShape& heads, double products) {
    return products * static_cast<double>(shape(qkv)[0] * heads.max_length) * heads.num_heads * heads.head_dim;
  };
  if (const auto* op = std::get_if<op::MatmulForward<TensorId>>(&any)) {
    return 2.0 * static_cast<double>(shape(op->y).num_elements() * op->in_features);
  }
  if (const auto* op = std::get_if<op::MatmulBackwardInput<TensorId>>(&any)) {
    return 2.0 * static_cast<double>(shape(op->dx).num_elements() * op->out_features);
  }
  if (const auto* op = std::get_if<op::MatmulBackwardWeight<TensorId>>(&any)) {
    return 2.0 * static_cast<double>(shape(op->dweight).num_elements() * shape(op->x)[0]);
  }
  if (const auto* op = std::get_if<op::AttentionForward<TensorId>>(&any)) return attention(op->qkv, op->shape, 2);
  if (const auto* op = std::get_if<op::AttentionBackward<TensorId>>(&any)) return attention(op->qkv, op->shape, 5);
  return 0;
}

/// Times of each entry of each tape, one a run.
class OpTimes final : public OpObserver {
 public:
  void before(const TapeEntry&) override { start_ = milliseconds_now(); }
  void after(const TapeEntry& entry) override { times_[&entry].push_back(milliseconds_now() - start_); }

  void print(const TensorTable& tensors) const {
    struct Row {
      int count = 0;
      double least = 0, median = 0, flops = 0;
    };
    std::map<std::string, Row> rows;
    Row total;
    for (const auto& [entry, times] : times_) {
      std::vector<double> sorted(times.begin() + 1, times.end());
      std::sort(sorted.begin(), sorted.end());
      for (Row* row : {&rows[std::string(entry->scope) + " " + std::string(op_name(entry->op))], &total}) {
        ++row->count;
        row->least += sorted.front();
        row->median += sorted[sorted.size() / 2];
        row->flops += flops_of(entry->op, tensors);
      }
    }
    rows["total"] = total;
    std::printf("%-48s %5s %9s %9s %7s %8s\n", "op", "calls", "least ms", "median", "share", "GFLOP/s");
    for (const auto& [name, row] : rows) {
      std::printf("%-48s %5d %9.3f %9.3f %6.1f%% %8.0f\n", name.c_str(), row.count, row.least, row.median,
                  100 * row.least / total.least, row.flops / row.least / 1e6);
    }
  }

 private:
  double start_ = 0;
  std::map<const TapeEntry*, std::vector<double>> times_;
};

void run(const std::string& path, int64_t steps, const std::vector<ConfigOverride>& settings) {
  const RunConfig config = read_run_file(path, settings);
  const ModelConfig model = scratch_model_config(config);
  const auto backend = make_cpu_backend(
      {.threads = static_cast<int>(config.device.threads), .max_isa = parse_cpu_isa(config.device.isa)});
  Executor executor(make_llama_program(model, training_options(config), backend->sizes()), *backend);
  initialise_weights(executor, config.seed);
  const BatchShape shape = executor.program().options.batch;
  const SyntheticSource source(config.seed, model.vocab_size, shape);
  Batch batch;
  Trainer trainer(executor, trainer_options(config), [&](uint64_t index) -> const Batch& {
    batch.reset(shape);
    source.fill(index, batch);
    return batch;
  });
  OpTimes times;
  executor.set_observer(&times);
  double least_seconds = 1e9;
  for (int64_t step = 0; step < steps; ++step) {
    const StepRecord record = trainer.step_and_finish();
    if (step > 0) least_seconds = std::min(least_seconds, record.seconds);
  }
  times.print(executor.program().tensors);
  const double rate = static_cast<double>(config.tokens_per_step()) / least_seconds;
  std::printf("%s: fastest step %.1f ms, %.0f tokens/s, %.1f GFLOP/s of the MFU formula\n", backend->name().c_str(),
              least_seconds * 1e3, rate, rate * training_flops_per_token(model, config.data.seq_len) / 1e9);
}

}  // namespace
}  // namespace litespark

int main(int argc, char** argv) {
  if (argc < 3) {
    std::cerr << "usage: bench_cpu_step RUN.toml STEPS [--section.key=value ...]\n";
    return 2;
  }
  std::vector<litespark::ConfigOverride> settings;
  for (int i = 3; i < argc; ++i) {
    const std::string text = argv[i];
    const size_t equals = text.find('=');
    settings.push_back({text.substr(2, equals - 2), text.substr(equals + 1)});
  }
  try {
    litespark::run(argv[1], std::max(2, std::atoi(argv[2])), settings);
  } catch (const litespark::Error& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
  return 0;
}
