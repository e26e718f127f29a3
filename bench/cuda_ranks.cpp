// SPDX-License-Identifier: Apache-2.0
// Training on several GPUs of one machine against one, by the trainer itself with random tokens: a thread a GPU, NCCL
// between them.
//   bench_cuda_ranks RUN.toml STEPS CASE[,CASE...] [--section.key=value ...]
// A case is a number of GPUs, with "g" where phases in which ranks meet are recorded as CUDA graphs, and "bN" for at
// most N blocks of NCCL's: 1,2,2g,2gb8. Cases run one after another. Seconds of a step are rank 0's, from the end of
// the step before it on the device; the first steps are left out; tokens/s = tokens of all ranks / median seconds.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "core/error.h"
#include "data/synthetic_source.h"
#include "dist/nccl/nccl_communicator.h"
#include "io/run_file.h"
#include "model/executor.h"
#include "model/weights.h"
#include "ops/cuda/cuda_backend.h"
#include "spec/flops.h"
#include "spec/run_program.h"
#include "train/run_options.h"
#include "train/trainer.h"

namespace litespark {
namespace {

constexpr size_t kWarmSteps = 4;

struct Case {
  std::string text;
  int ranks = 1;
  bool records = false;
  int max_blocks = 0;
};

Case parse_case(const std::string& text) {
  Case parsed{.text = text};
  char* rest = nullptr;
  parsed.ranks = static_cast<int>(std::strtol(text.c_str(), &rest, 10));
  if (*rest == 'g') parsed.records = *rest++ == 'g';
  if (*rest == 'b') parsed.max_blocks = static_cast<int>(std::strtol(rest + 1, &rest, 10));
  if (parsed.ranks < 1 || *rest != '\0') throw ConfigError("case", "is none", text, "such as 1, 2, 2g or 4gb8");
  return parsed;
}

/// What all ranks of a case have in common.
struct World {
  const RunConfig& config;
  const Case& what;
  NcclId id{};
  std::mutex mutex;
  std::vector<StepRecord> records;  ///< rank 0's
  int64_t device_bytes = 0;
  std::exception_ptr failure;
};

void train(World& world, int rank, int64_t steps) {
  const RunConfig& config = world.config;
  const ModelConfig model = scratch_model_config(config);
  const auto backend = make_cuda_backend({.ordinal = rank, .deterministic = config.deterministic});
  std::unique_ptr<Communicator> communicator;
  if (world.what.ranks > 1) {
    communicator = make_nccl_communicator({.id = world.id,
                                           .rank = rank,
                                           .size = world.what.ranks,
                                           .device = rank,
                                           .compute_stream = cuda_stream_of(*backend),
                                           .timeout_seconds = 120,
                                           .max_blocks = world.what.max_blocks});
  }
  ProgramOptions options = training_options(config);
  options.data_ranks = world.what.ranks;
  options.data_rank = rank;
  Executor executor(make_llama_program(model, options, backend->sizes()), *backend, communicator.get());
  executor.set_records_communication(world.what.records);
  initialise_weights(executor, static_cast<uint64_t>(config.seed));
  const SyntheticSource source(static_cast<uint64_t>(config.seed), model.vocab_size, options.batch);
  Batch batch;
  Trainer trainer(executor, trainer_options(config), [&](uint64_t index) -> const Batch& {
    batch.reset(options.batch);
    source.fill(index * static_cast<uint64_t>(world.what.ranks) + static_cast<uint64_t>(rank), batch);
    return batch;
  });
  std::vector<StepRecord> records;
  const auto keep = [&](const std::optional<StepRecord>& record) {
    if (record) records.push_back(*record);
  };
  for (int64_t step = 0; step < steps; ++step) keep(trainer.step());
  keep(trainer.finish());
  if (rank != 0) return;
  world.records = std::move(records);
  world.device_bytes = backend->memory_use().used_bytes.value_or(0);
}

/// Tokens a second.
double run_case(const RunConfig& config, const Case& what, int64_t steps) {
  World world{.config = config, .what = what};
  if (what.ranks > 1) world.id = make_nccl_id();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < what.ranks; ++rank) {
    threads.emplace_back([&world, rank, steps] {
      try {
        train(world, rank, steps);
      } catch (...) {
        const std::lock_guard lock(world.mutex);
        if (!world.failure) world.failure = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (world.failure) std::rethrow_exception(world.failure);
  std::vector<double> seconds;
  for (size_t i = kWarmSteps; i < world.records.size(); ++i) seconds.push_back(world.records[i].seconds);
  std::sort(seconds.begin(), seconds.end());
  const double median = seconds[seconds.size() / 2];
  const double tokens = static_cast<double>(config.train.micro_batch * config.train.accumulation * what.ranks) *
                        static_cast<double>(config.data.seq_len);
  std::printf("%-8s %2d GPUs  step %8.2f ms (%.2f to %.2f)  %9.0f tokens/s  loss %.6f -> %.6f  norm %.6f  %.1f GiB\n",
              what.text.c_str(), what.ranks, median * 1e3, seconds.front() * 1e3, seconds.back() * 1e3, tokens / median,
              world.records.front().loss, world.records.back().loss, world.records.back().grad_norm,
              static_cast<double>(world.device_bytes) / 0x1p30);
  std::fflush(stdout);
  return tokens / median;
}

void run(const std::string& path, int64_t steps, const std::string& cases,
         const std::vector<ConfigOverride>& settings) {
  const RunConfig config = read_run_file(path, settings);
  std::stringstream list(cases);
  double one = 0;
  for (std::string text; std::getline(list, text, ',');) {
    const Case what = parse_case(text);
    const double rate = run_case(config, what, steps);
    if (what.ranks == 1) one = rate;
    if (what.ranks > 1 && one > 0) std::printf("         %.3f times one GPU\n", rate / one);
  }
}

}  // namespace
}  // namespace litespark

int main(int argc, char** argv) {
  if (argc < 4) {
    std::cerr << "usage: bench_cuda_ranks RUN.toml STEPS CASE[,CASE...] [--section.key=value ...]\n";
    return 2;
  }
  std::vector<litespark::ConfigOverride> settings;
  for (int i = 4; i < argc; ++i) {
    const std::string text = argv[i];
    const size_t equals = text.find('=');
    settings.push_back({text.substr(2, equals - 2), text.substr(equals + 1)});
  }
  try {
    litespark::run(argv[1], std::max(8, std::atoi(argv[2])), argv[3], settings);
  } catch (const litespark::Error& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
  return 0;
}
