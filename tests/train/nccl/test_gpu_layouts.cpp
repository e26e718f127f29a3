// SPDX-License-Identifier: Apache-2.0
// Every layout of two GPUs, which are threads here, gives the losses and weights of one GPU that takes the same
// micro-batches. What several layouts have in common is tested with CPU ranks; this is the real devices and NCCL.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cmath>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "data/synthetic_source.h"
#include "dist/nccl/nccl_communicator.h"
#include "model/weights.h"
#include "ops/cuda/cuda_backend.h"
#include "train/snapshot.h"
#include "train/trainer.h"

namespace litespark {
namespace {

constexpr int kSteps = 4;
constexpr uint64_t kSeed = 5;

ModelConfig small_model() {
  return {.vocab_size = 512,
          .hidden_size = 256,
          .intermediate_size = 512,
          .num_hidden_layers = 3,
          .num_attention_heads = 4,
          .num_key_value_heads = 2,
          .head_dim = 64,
          .max_position_embeddings = 256};
}

struct Layout {
  std::string name;
  int gpus = 1;
  int64_t accumulation = 1;
  ProgramOptions options;
  bool is_tied = false;
  bool records = false;
};

ProgramOptions options_in(DType compute) {
  return {
      .batch = {.num_tokens = 512, .max_documents = 2, .max_length = 256}, .compute = compute, .head_chunk_rows = 256};
}

struct Outcome {
  std::vector<StepRecord> records;
  std::vector<float> weights;                 ///< flat, with what lies between parameters
  std::map<std::string, std::string> tuning;  ///< rank 0's choices between algorithms
};

/// `tuning`: choices that an earlier run made by timing; without them each makes its own.
struct Rank {
  int rank = 0;
  const NcclId* id = nullptr;
  std::map<std::string, std::string> tuning;
};

void train_rank(const Layout& layout, const Rank& place, Outcome& outcome) {
  const int rank = place.rank;
  const NcclId* const id = place.id;
  const auto backend = make_cuda_backend({.ordinal = rank});
  backend->set_tuning(place.tuning);
  std::unique_ptr<Communicator> ranks;
  if (id != nullptr) {
    ranks = make_nccl_communicator({.id = *id,
                                    .rank = rank,
                                    .size = layout.gpus,
                                    .device = rank,
                                    .compute_stream = cuda_stream_of(*backend),
                                    .timeout_seconds = 60});
  }
  ModelConfig config = small_model();
  config.tie_word_embeddings = layout.is_tied;
  ProgramOptions options = layout.options;
  options.accumulates = layout.accumulation > 1;
  options.micro_batches = layout.accumulation;
  options.data_ranks = layout.gpus / (options.tensor_ranks * options.stages);
  options.take_place(rank);
  Executor executor(make_llama_program(config, options, backend->sizes()), *backend, ranks.get());
  executor.set_records_communication(layout.records);
  initialise_weights(executor, kSeed);
  const SyntheticSource source(kSeed, config.vocab_size, options.batch);
  Batch batch;
  TrainerOptions trainer_options{.schedule = {.decay = Decay::kConstant, .peak = 1e-3, .total_steps = kSteps},
                                 .accumulation = layout.accumulation};
  Trainer trainer(executor, trainer_options, [&](uint64_t index) -> const Batch& {
    batch.reset(options.batch);
    source.fill(index * static_cast<uint64_t>(options.replicas()) + static_cast<uint64_t>(options.replica()), batch);
    return batch;
  });
  std::vector<StepRecord> records;
  for (int step = 0; step < kSteps; ++step) records.push_back(trainer.step_and_finish());
  TrainingSnapshot snapshot;
  if (ranks) {
    take_gathered_snapshot(executor, trainer, {}, rank == 0, snapshot);
  } else {
    take_snapshot(executor, trainer, {}, snapshot);
  }
  if (rank == 0) outcome = {.records = records, .weights = snapshot.master, .tuning = backend->tuning()};
}

Outcome train(const Layout& layout, const std::map<std::string, std::string>& tuning = {}) {
  Outcome outcome;
  if (layout.gpus == 1) {
    train_rank(layout, {.tuning = tuning}, outcome);
    return outcome;
  }
  const NcclId id = make_nccl_id();
  std::mutex mutex;
  std::exception_ptr first;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < layout.gpus; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        train_rank(layout, {.rank = rank, .id = &id, .tuning = tuning}, outcome);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!first) first = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (first) std::rethrow_exception(first);
  return outcome;
}

double relative_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double difference = 0;
  double norm = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference += std::pow(double{a[i]} - double{b[i]}, 2);
    norm += std::pow(double{b[i]}, 2);
  }
  return std::sqrt(difference / norm);
}

/// One GPU, with twice the micro-batches where two GPUs take each their own.
Layout on_one_gpu(Layout layout) {
  ProgramOptions& options = layout.options;
  layout.accumulation *= layout.gpus / (options.tensor_ranks * options.stages * options.context_ranks);
  layout.gpus = 1;
  options.tensor_ranks = options.stages = options.context_ranks = 1;
  layout.options.shards_gradients = false;
  return layout;
}

std::vector<Layout> layouts_of_two(DType compute) {
  const auto make = [&](std::string name, const std::function<void(Layout&)>& change) {
    Layout layout{.name = std::move(name), .gpus = 2, .options = options_in(compute)};
    change(layout);
    return layout;
  };
  return {make("shared optimizer", [](Layout&) {}),
          make("shared optimizer, tied", [](Layout& layout) { layout.is_tied = true; }),
          make("shared optimizer, recorded", [](Layout& layout) { layout.records = true; }),
          make("shared optimizer, two micro-batches", [](Layout& layout) { layout.accumulation = 2; }),
          make("shared gradients", [](Layout& layout) { layout.options.shards_gradients = true; }),
          make("shared gradients, two micro-batches",
               [](Layout& layout) {
                 layout.options.shards_gradients = true;
                 layout.accumulation = 2;
               }),
          make("shared replica", [](Layout& layout) { layout.options.tensor_ranks = 2; }),
          make("two stages",
               [](Layout& layout) {
                 layout.options.stages = 2;
                 layout.accumulation = 4;
               }),
          make("two stages, tied, one micro-batch",
               [](Layout& layout) {
                 layout.options.stages = 2;
                 layout.is_tied = true;
               }),
          make("shared micro-batches", [](Layout& layout) { layout.options.context_ranks = 2; }),
          make("shared micro-batches, recorded, two",
               [](Layout& layout) {
                 layout.options.context_ranks = 2;
                 layout.accumulation = 2;
                 layout.records = true;
               }),
          make("shared micro-batches off every tile",
               [](Layout& layout) {
                 layout.options.context_ranks = 2;
                 layout.options.batch = {.num_tokens = 500, .max_documents = 2, .max_length = 250};
               }),
          make("shared micro-batches and gradients",
               [](Layout& layout) {
                 layout.options.context_ranks = 2;
                 layout.options.shards_gradients = true;
                 layout.accumulation = 2;
               }),
          make("shared replica, tied, two micro-batches", [](Layout& layout) {
            layout.options.tensor_ranks = 2;
            layout.is_tied = true;
            layout.accumulation = 2;
          })};
}

struct Limits {
  double loss;  ///< relative, of every step
  double weights;
};

void expect_one_gpu_s_run(DType compute, const Limits& limits) {
  int gpus = 0;
  if (cudaGetDeviceCount(&gpus) != cudaSuccess || gpus < 2) GTEST_SKIP() << "needs two GPUs, found " << gpus;
  for (const Layout& layout : layouts_of_two(compute)) {
    SCOPED_TRACE(layout.name);
    const Outcome expected = train(on_one_gpu(layout));
    const Outcome found = train(layout);
    for (size_t step = 0; step < expected.records.size(); ++step) {
      EXPECT_NEAR(found.records[step].loss, expected.records[step].loss, limits.loss * expected.records[step].loss);
      EXPECT_EQ(found.records[step].supervised_tokens, expected.records[step].supervised_tokens);
    }
    ASSERT_EQ(found.weights.size(), expected.weights.size());
    EXPECT_LT(relative_difference(found.weights, expected.weights), limits.weights);
    const Outcome once = train(layout, found.tuning);
    EXPECT_EQ(train(layout, found.tuning).weights, once.weights) << "the same layout gives the same bits";
  }
}

TEST(GpuLayouts, GiveTheRunOfOneGpuInF32) {
  expect_one_gpu_s_run(DType::kF32, {.loss = 2e-5, .weights = 2e-3});
}

TEST(GpuLayouts, GiveTheRunOfOneGpuInBf16WithinItsRounding) {
  expect_one_gpu_s_run(DType::kBF16, {.loss = 2e-3, .weights = 2e-2});
}

}  // namespace
}  // namespace litespark
