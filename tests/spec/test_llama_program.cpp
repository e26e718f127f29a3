// SPDX-License-Identifier: Apache-2.0
// What a Llama's tapes must promise whatever the options: contracts hold, memory shrinks when it should, FLOPs are
// those of the architecture.
#include <gtest/gtest.h>

#include "core/error.h"
#include "ops/backend.h"
#include "spec/llama_program_checks.h"
#include "spec/program.h"
#include "support/error_text.h"
#include "support/plain_sizes.h"

namespace litespark {
namespace {

ModelConfig tiny_config() {
  return {.vocab_size = 96,
          .hidden_size = 32,
          .intermediate_size = 48,
          .num_hidden_layers = 4,
          .num_attention_heads = 4,
          .num_key_value_heads = 2,
          .head_dim = 8,
          .max_position_embeddings = 64};
}

ProgramOptions tiny_options() {
  return {.batch = {.num_tokens = 64, .max_documents = 4, .max_length = 32},
          .accumulates = true,
          .has_logits = true,
          .head_chunk_rows = 24};
}

int64_t train_peak(const Program& program) {
  for (const PhasePeak& peak : program.memory->phases()) {
    if (peak.phase == "train_first") return peak.arena_bytes;
  }
  return -1;
}

struct Variant {
  ModelConfig config = tiny_config();
  ProgramOptions options = tiny_options();
  bool packs = false;
};

std::vector<Variant> variants() {
  std::vector<Variant> all(1);
  for (const Recompute recompute :
       {Recompute::kNormAct, Recompute::kAttention, Recompute::kKeepAttention, Recompute::kBlock, Recompute::kEveryK}) {
    Variant variant;
    variant.options.recompute = recompute;
    variant.options.recompute_every = 3;
    all.push_back(variant);
  }
  for (const DType residual : {DType::kF32, DType::kBF16}) {
    Variant variant;
    variant.options.compute = DType::kBF16;
    variant.options.residual = residual;
    variant.packs = residual == DType::kF32;
    all.push_back(variant);
  }
  Variant everything;
  everything.config.tie_word_embeddings = everything.config.has_qkv_bias = everything.config.has_output_bias = true;
  everything.config.has_mlp_bias = everything.config.has_qk_norm = true;
  everything.config.sliding_window = 8;
  everything.options.z_loss = 1e-4;
  everything.options.recompute = Recompute::kBlock;
  all.push_back(everything);
  return all;
}

TEST(LlamaProgram, EveryOpOfEveryVariantKeepsItsContract) {
  for (const Variant& variant : variants()) {
    const Program program = make_llama_program(variant.config, variant.options, PlainSizes(variant.packs));
    for (const auto& [phase, tape] : program.tapes) {
      for (const TapeEntry& entry : tape.entries()) {
        EXPECT_NO_THROW(validate(bind_shapes(entry.op, program.tensors))) << tape.phase() << " " << op_name(entry.op);
        EXPECT_FALSE(entry.scope.empty());
      }
    }
  }
}

TEST(LlamaProgram, TheArenaComesCloseToTheLowerBoundOfLivingBytes) {
  for (const Variant& variant : variants()) {
    const Program program = make_llama_program(variant.config, variant.options, PlainSizes(variant.packs));
    for (const PhasePeak& peak : program.memory->phases()) {
      // Training decides the arena's size; forward-only phases are far below it, a few gaps there cost nothing.
      const double slack = peak.phase.starts_with("train") ? 1.02 : 1.2;
      EXPECT_LE(static_cast<double>(peak.arena_bytes), slack * static_cast<double>(peak.live_bytes)) << peak.phase;
    }
  }
}

TEST(LlamaProgram, EachRecomputeOptionKeepsLessThanTheOneBefore) {
  ModelConfig config = tiny_config();
  config.num_hidden_layers = 12;
  int64_t previous = INT64_MAX;
  for (const Recompute recompute :
       {Recompute::kNone, Recompute::kNormAct, Recompute::kAttention, Recompute::kKeepAttention, Recompute::kBlock}) {
    ProgramOptions options = tiny_options();
    options.recompute = recompute;
    const int64_t peak = train_peak(make_llama_program(config, options, PlainSizes()));
    EXPECT_LT(peak, previous);
    previous = peak;
  }
}

TEST(LlamaProgram, AccumulatingTapesAddToEveryGradientAndFirstTapesToNone) {
  const Program program = make_llama_program(tiny_config(), tiny_options(), PlainSizes());
  const auto count_adding = [&](Phase phase) {
    int adding = 0, all = 0;
    for (const TapeEntry& entry : program.tape(phase)->entries()) {
      std::visit(
          [&](const auto& op) {
            if constexpr (requires { op.accumulate; }) {
              if (op.kName == "matmul_backward_input") return;
              ++all;
              adding += op.accumulate;
            }
          },
          entry.op);
    }
    return std::pair(adding, all);
  };
  const auto [first_adding, first_all] = count_adding(Phase::kTrainFirst);
  EXPECT_EQ(first_adding, 2);  // the head's second and third chunk of rows
  const auto [next_adding, next_all] = count_adding(Phase::kTrainNext);
  EXPECT_EQ(next_adding, next_all);
  EXPECT_EQ(first_all, next_all);
}

TEST(LlamaProgram, TakesTheHeadChunkThatTheBackendPrefers) {
  ProgramOptions options = tiny_options();
  options.head_chunk_rows = 0;
  EXPECT_EQ(make_llama_program(tiny_config(), options, PlainSizes()).options.head_chunk_rows, 512);
  EXPECT_EQ(gpu_head_chunk_rows(128256), 4096);
  EXPECT_EQ(gpu_head_chunk_rows(32000), 8192);
  EXPECT_EQ(gpu_head_chunk_rows(10000000), 1024);
}

size_t num_losses(const Program& program) {
  size_t count = 0;
  for (const TapeEntry& entry : program.tape(Phase::kEval)->entries()) {
    count += std::holds_alternative<op::CrossEntropy<TensorId>>(entry.op);
  }
  return count;
}

TEST(LlamaProgram, HasABoundedNumberOfHeadChunksHoweverManyTokensAMicroBatchHas) {
  ProgramOptions options = tiny_options();
  options.head_chunk_rows = 0;
  options.has_logits = false;
  options.batch.num_tokens = INT32_MAX;
  const Program program = make_llama_program(tiny_config(), options, PlainSizes());
  EXPECT_EQ(program.options.head_chunk_rows, 524288);
  EXPECT_EQ(num_losses(program), 4096u);
  options.head_chunk_rows = 524287;
  EXPECT_FALSE(has_bounded_length(tiny_config(), options));
  EXPECT_EQ(error_text<ConfigError>([&] { make_llama_program(tiny_config(), options, PlainSizes()); }),
            "[train.head_chunk_rows] cuts the logits of a micro-batch into more than 4096 chunks; got 524287, expected "
            "at least 524288 for 2147483647 tokens");
}

TEST(LlamaProgram, RefusesPipelineStepsOfMoreMicroBatchesThanATapeHolds) {
  ProgramOptions options = tiny_options();
  options.stages = 2;
  options.micro_batches = kMostLayerPasses / tiny_config().num_hidden_layers;
  EXPECT_TRUE(has_bounded_length(tiny_config(), options));
  ++options.micro_batches;
  EXPECT_FALSE(has_bounded_length(tiny_config(), options));
  EXPECT_TRUE(contains(error_text<ConfigError>([&] { make_llama_program(tiny_config(), options, PlainSizes()); }),
                       "[train.accumulation] is too much for pipeline stages"));
}

TEST(LlamaProgram, RefusesImpossibleOptionsByName) {
  const auto refuses = [](auto change) {
    ProgramOptions options = tiny_options();
    change(options);
    EXPECT_THROW(make_llama_program(tiny_config(), options, PlainSizes()), ConfigError);
  };
  refuses([](ProgramOptions& o) { o.batch.num_tokens = 0; });
  refuses([](ProgramOptions& o) { o.batch.max_length = 65; });
  refuses([](ProgramOptions& o) { o.batch = {.num_tokens = 128, .max_documents = 1, .max_length = 128}; });
  refuses([](ProgramOptions& o) { o.head_chunk_rows = -1; });
  refuses([](ProgramOptions& o) { o.recompute = Recompute::kEveryK, o.recompute_every = 5; });
}

}  // namespace
}  // namespace litespark
