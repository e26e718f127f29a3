// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "model/matmul_peak.h"
#include "model/weights.h"
#include "ops/cpu/cpu_backend.h"

namespace litespark {
namespace {

ModelConfig model() {
  return {.vocab_size = 96,
          .hidden_size = 32,
          .intermediate_size = 48,
          .num_hidden_layers = 2,
          .num_attention_heads = 4,
          .num_key_value_heads = 2,
          .head_dim = 8,
          .max_position_embeddings = 64};
}

TEST(MatmulPeak, IsARateThatAMachineCanHave) {  // report:B39
  const auto backend = make_cpu_backend({});
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const ProgramOptions options{
        .batch = {.num_tokens = 64, .max_documents = 4, .max_length = 32}, .compute = dtype, .head_chunk_rows = 24};
    Executor executor(make_llama_program(model(), options, backend->sizes()), *backend);
    initialise_weights(executor, 1);
    const MatmulPeak peak = measure_matmul_peak(executor, 0.0);
    EXPECT_TRUE(std::isfinite(peak.flops_per_second));
    EXPECT_GT(peak.flops_per_second, 1e6);   // slower than any machine that is still in use
    EXPECT_LT(peak.flops_per_second, 1e17);  // a product that was not run at all looks faster
    // qkv, output, gate and up, down; the head's chunks of 24 rows and the last one of 16.
    EXPECT_EQ(peak.num_shapes, 6);
  }
}

TEST(MatmulPeak, LeavesTheWeightsAlone) {
  const auto backend = make_cpu_backend({.threads = 1});
  const ProgramOptions options{.batch = {.num_tokens = 64, .max_documents = 4, .max_length = 32}};
  Executor executor(make_llama_program(model(), options, backend->sizes()), *backend);
  initialise_weights(executor, 1);
  const std::vector<float> before = get_parameter(executor, 0);
  measure_matmul_peak(executor, 0.0);
  EXPECT_EQ(get_parameter(executor, 0), before);
}

// Packed on use, a weight is there for its own product alone.
TEST(MatmulPeak, MultipliesTheWeightsThatAStepMultiplies) {
  const auto backend = make_cpu_backend({.threads = 1});
  for (const bool packs_on_use : {false, true}) {
    ProgramOptions options{.batch = {.num_tokens = 64, .max_documents = 4, .max_length = 32}};
    options.packs_on_use = packs_on_use;
    ModelConfig config = model();
    config.vocab_size = 100;  // so that no other product has the head's shape
    Executor executor(make_llama_program(config, options, backend->sizes()), *backend);
    initialise_weights(executor, 1);
    measure_matmul_peak(executor, 0.0);
    TensorId logits;
    for (const TapeEntry& entry : executor.program().tape(Phase::kTrainFirst)->entries()) {
      const auto* const op = std::get_if<op::MatmulForward<TensorId>>(&entry.op);
      if (op != nullptr && entry.scope == "forward.head") logits = op->y;
    }
    std::vector<float> values(static_cast<size_t>(executor.tensor(logits).num_elements()));
    backend->copy_to_host(values.data(), executor.tensor(logits).data, executor.tensor(logits).bytes());
    EXPECT_GT(std::count_if(values.begin(), values.end(), [](float value) { return value != 0; }),
              std::ssize(values) * 9 / 10);
  }
}

TEST(MatmulPeak, NeedsAProgramThatTrains) {
  const auto backend = make_cpu_backend({.threads = 1});
  const ProgramOptions options{.batch = {.num_tokens = 64, .max_documents = 4, .max_length = 32},
                               .has_training = false};
  Executor executor(make_llama_program(model(), options, backend->sizes()), *backend);
  EXPECT_THROW(measure_matmul_peak(executor, 0.0), InternalError);
}

TEST(MatmulPeak, OfAFixedSizeIsARateThatAMachineCanHave) {  // report:B39
  const auto backend = make_cpu_backend({});
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const double rate = measure_matmul_rate(*backend, dtype, 0.0);
    EXPECT_TRUE(std::isfinite(rate));
    EXPECT_GT(rate, 1e6);   // slower than any machine that is still in use
    EXPECT_LT(rate, 1e17);  // a product that was not run at all looks faster
  }
}

}  // namespace
}  // namespace litespark
