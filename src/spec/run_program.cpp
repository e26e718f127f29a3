// SPDX-License-Identifier: Apache-2.0
#include "spec/run_program.h"

#include <algorithm>

namespace litespark {
namespace {

/// Rows of logits at a time when the run file leaves the choice: enough to keep a matmul busy, few enough that even a
/// vocabulary of 128k stays a small part of the plan.
constexpr int64_t kHeadChunkRows = 512;

/// Capacity for packed documents: a mean length of 8 tokens. An offset costs four bytes, so this is cheap; the loader
/// closes a micro-batch early when it holds even shorter documents.
constexpr int64_t kTokensPerDocument = 8;

BatchShape batch_of(const RunConfig& config) {
  const int64_t rows = config.train.micro_batch;
  const int64_t length = config.data.seq_len;
  const bool is_uniform = config.data.source != DataSource::kShards || config.data.packing == Packing::kStream;
  return {.num_tokens = rows * length,
          .max_documents = is_uniform ? rows : std::max(rows, rows * length / kTokensPerDocument),
          .max_length = length,
          .uniform = is_uniform};
}

}  // namespace

ProgramOptions training_options(const RunConfig& config) {
  const BatchShape batch = batch_of(config);
  const int64_t chunk = config.train.head_chunk_rows > 0 ? config.train.head_chunk_rows : kHeadChunkRows;
  return {.batch = batch,
          .compute = config.precision.compute,
          .residual = config.precision.residual_dtype(),
          .recompute = config.memory.recompute,
          .recompute_every = config.memory.recompute_every,
          .accumulates = config.train.accumulation > 1,
          .head_chunk_rows = std::min(chunk, batch.num_tokens),
          .z_loss = config.train.z_loss,
          .adamw = {.beta1 = config.optim.betas.at(0),
                    .beta2 = config.optim.betas.at(1),
                    .eps = config.optim.eps,
                    .weight_decay = config.optim.weight_decay}};
}

}  // namespace litespark
