// SPDX-License-Identifier: Apache-2.0
#include "anatomy/prepared_model.h"

#include "data/synthetic_source.h"
#include "model/weights.h"
#include "train/evaluate.h"

namespace litespark::anatomy {

ModelConfig ModelSizes::config() const {
  ModelConfig config;
  config.vocab_size = vocab;
  config.hidden_size = hidden;
  config.intermediate_size = ffn;
  config.num_hidden_layers = layers;
  config.num_attention_heads = heads;
  config.num_key_value_heads = kv_heads;
  config.head_dim = hidden / heads;
  config.max_position_embeddings = length;
  return config;
}

BatchShape ModelSizes::batch() const {
  return {.num_tokens = sequences * length, .max_documents = sequences, .max_length = length, .uniform = true};
}

std::string ModelSizes::text() const {
  return std::to_string(layers) + " x " + std::to_string(hidden) + ", F " + std::to_string(ffn) + ", " +
         std::to_string(heads) + " heads (" + std::to_string(kv_heads) + " of keys), vocabulary " +
         std::to_string(vocab) + "; " + std::to_string(sequences) + " x " + std::to_string(length) + " tokens";
}

ProgramOptions train_options(const ModelSizes& sizes, DType compute) {
  ProgramOptions options;
  options.batch = sizes.batch();
  options.compute = compute;
  options.residual = compute;
  return options;
}

PreparedModel::PreparedModel(Backend& backend, const ModelSizes& sizes, const ProgramOptions& options,
                             Communicator* communicator)
    : executor_(make_llama_program(sizes.config(), options, backend.sizes()), backend, communicator) {
  initialise_weights(executor_, 1);
  const SyntheticSource source(1, sizes.vocab, options.batch);
  Batch batch;
  batch.reset(options.batch);
  source.fill(static_cast<uint64_t>(options.data_rank), batch);
  upload_batch(executor_, batch);
}

void PreparedModel::run() {
  executor_.begin_step(StepState{});
  executor_.run(Phase::kTrainFirst);
}

void PreparedModel::run_step() {
  executor_.begin_step({.learning_rate = 1e-6f});
  executor_.run(Phase::kTrainFirst);
  if (executor_.communicator() != nullptr) {
    executor_.write_rank_counts({.batch_tokens = executor_.program().options.batch.num_tokens});
  }
  executor_.run(Phase::kOptimizer);
  executor_.run(Phase::kPack);
}

double PreparedModel::loss() const {
  const StepState state = executor_.read_state();
  return state.loss_sum / static_cast<double>(std::max<int64_t>(state.supervised_tokens, 1));
}

std::vector<float> PreparedModel::gradients() const {
  std::vector<float> all;
  for (size_t param = 0; param < executor_.program().params.params.size(); ++param) {
    const std::vector<float> one = get_gradient(executor_, static_cast<int64_t>(param));
    all.insert(all.end(), one.begin(), one.end());
  }
  return all;
}

}  // namespace litespark::anatomy
