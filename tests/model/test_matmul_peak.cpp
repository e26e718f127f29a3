// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

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
