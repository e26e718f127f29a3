// SPDX-License-Identifier: Apache-2.0
// A model of a few thousand parameters on the CPU backend: what the training invariants are tested with.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "data/batch.h"
#include "model/weights.h"
#include "ops/cpu/cpu_backend.h"
#include "train/trainer.h"

namespace litespark {

inline ModelConfig tiny_model() {
  return {.vocab_size = 96,
          .hidden_size = 32,
          .intermediate_size = 48,
          .num_hidden_layers = 3,
          .num_attention_heads = 4,
          .num_key_value_heads = 2,
          .head_dim = 8,
          .max_position_embeddings = 64};
}

inline ProgramOptions tiny_program_options() {
  return {.batch = {.num_tokens = 64, .max_documents = 4, .max_length = 32}, .head_chunk_rows = 24};
}

/// A backend, an executor with weights from the seed, and a trainer over a list of micro-batches that repeats.
struct TinyRun {
  std::unique_ptr<Backend> backend;
  Executor executor;
  std::vector<Batch> batches;
  Trainer trainer;

  TinyRun(const ModelConfig& config, const ProgramOptions& options, std::vector<Batch> given,
          TrainerOptions trainer_options, CpuOptions cpu = {})
      : TinyRun(config, options, std::move(given), std::move(trainer_options), make_cpu_backend(cpu)) {}
  /// `communicator`: of the ranks that the program names; each takes its share of the micro-batches.
  TinyRun(const ModelConfig& config, const ProgramOptions& options, std::vector<Batch> given,
          TrainerOptions trainer_options, std::unique_ptr<Backend> ready, Communicator* communicator = nullptr)
      : TinyRun(make_llama_program(config, options, ready->sizes()), std::move(given), std::move(trainer_options),
                std::move(ready), communicator) {}
  TinyRun(Program program, std::vector<Batch> given, TrainerOptions trainer_options, std::unique_ptr<Backend>&& ready,
          Communicator* communicator)
      : backend(std::move(ready)),
        executor(std::move(program), *backend, communicator),
        batches(std::move(given)),
        trainer(executor, std::move(trainer_options), [this](uint64_t index) -> const Batch& {
          const ProgramOptions& of = executor.program().options;
          return batches[static_cast<size_t>(index * static_cast<uint64_t>(of.replicas()) +
                                             static_cast<uint64_t>(of.replica())) %
                         batches.size()];
        }) {
    initialise_weights(executor, 5);
  }

  /// Every master weight, in table order.
  std::vector<float> weights() const {
    std::vector<float> all;
    for (size_t i = 0; i < executor.program().params.params.size(); ++i) {
      const std::vector<float> values = get_parameter(executor, static_cast<int64_t>(i));
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  }
};

inline TrainerOptions tiny_trainer_options(int64_t steps = 10) {
  return {.schedule = {.decay = Decay::kConstant, .peak = 3e-3, .total_steps = steps}};
}

/// `lengths` documents of pseudo-random tokens, next-token labels, none across documents.
Batch random_batch(const BatchShape& shape, const std::vector<int64_t>& lengths, int64_t vocab_size, uint64_t seed);
/// Two batches of tiny_program_options' shape, seven documents.
std::vector<Batch> some_batches();

std::vector<StepRecord> run_steps(TinyRun& run, int steps);

/// Steps of a run on 8-bit floats beside those of the same run in bf16: losses that are near and not the same, and that
/// fall to half; nothing infinite, few elements flushed.
void expect_learns_as_bf16(const std::vector<StepRecord>& records, const std::vector<StepRecord>& bf16);

/// Three steps of `options` under every recompute option: the same losses, norms and weights. `compare` sees each
/// step's record and that without recompute.
void expect_recompute_changes_nothing(
    ProgramOptions options, const std::function<void(const StepRecord& found, const StepRecord& expected)>& compare =
                                [](const StepRecord&, const StepRecord&) {});

}  // namespace litespark
