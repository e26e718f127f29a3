// SPDX-License-Identifier: Apache-2.0
#include "train/run_options.h"

#include <algorithm>
#include <filesystem>

#include "io/file.h"
#include "io/hf_config.h"

namespace litespark {
namespace {

Decay decay_of(ScheduleKind kind) {
  switch (kind) {
    case ScheduleKind::kCosine: return Decay::kCosine;
    case ScheduleKind::kLinear: return Decay::kLinear;
    case ScheduleKind::kWsd: return Decay::kWsd;
    case ScheduleKind::kConstant: return Decay::kConstant;
    case ScheduleKind::kInverseSqrt: return Decay::kInverseSqrt;
  }
  throw InternalError("schedule.name", "unknown schedule", static_cast<int>(kind), "a ScheduleKind");
}

/// "lr=0.001 betas=[0.9, 0.95]": the named keys with their values, as the run file writes them.
std::string keys_text(const RunConfig& config, std::initializer_list<std::string_view> paths) {
  RunConfig copy = config;
  const Fields fields = Fields::of(copy);
  std::string text;
  for (const std::string_view path : paths) {
    const Field* field = fields.find(path);
    if (field == nullptr) throw InternalError("run_identity", "no such key", path, "a key of the run file");
    text += (text.empty() ? "" : " ") + std::string(field->name()) + "=" + value_text(*field);
  }
  return text;
}

/// One line; names the difference when a resume meets another model.
std::string model_text(const ModelConfig& model) {
  std::string text = hf_config_json(model, DType::kF32);
  std::erase(text, '\n');
  std::erase(text, ' ');
  return text;
}

/// Number formats that change results; bf16-remainder gives the bits of fp32, and an emulation stands for the real
/// thing. 8-bit copies are made of the bf16 weight where there is one, else of the fp32 master: those bits differ.
std::string precision_text(RunConfig config) {
  const bool is_fp8 = config.precision.matmul != MatmulPrecision::kCompute;
  if (config.precision.master == MasterWeights::kBF16Remainder && !is_fp8)
    config.precision.master = MasterWeights::kF32;
  std::string text = keys_text(config, {"precision.compute", "precision.residual", "precision.master", "precision.rope",
                                        "precision.gradient", "optim.moments", "deterministic"});
  if (config.precision.attention != AttentionPrecision::kCompute) {
    config.precision.attention = AttentionPrecision::kFp8;
    text += " " + keys_text(config, {"precision.attention"});
  }
  if (!is_fp8) return text;
  config.precision.matmul = MatmulPrecision::kFp8;
  return text + " " + keys_text(config, {"precision.matmul", "precision.fp8_gradient", "precision.fp8_scaling"});
}

/// Ranks and accumulation may change places: the same micro-batches make up a step. Not where ranks have copies of
/// norms and biases, which learn from a rank's own.
std::string batch_text(RunConfig config) {
  const int64_t ranks = config.cluster.data_parallel();
  config.train.accumulation *= ranks;
  std::string text = keys_text(config, {"train.micro_batch", "train.accumulation", "data.seq_len", "data.packing"});
  if (config.distribution.compression != Compression::kNone) {
    text += " " + keys_text(config, {"distribution.compression", "distribution.error_feedback"});
  }
  if (ranks == 1 || config.distribution.sync_small_every == 1) return text;
  return text + " ranks=" + std::to_string(ranks) + " " + keys_text(config, {"distribution.sync_small_every"});
}

}  // namespace

TrainerOptions trainer_options(const RunConfig& config) {
  return {.schedule = {.decay = decay_of(config.schedule.name),
                       .peak = config.optim.lr,
                       .warmup_steps = config.schedule.warmup,
                       .total_steps = config.train.steps,
                       .final_fraction = config.schedule.final_fraction,
                       .decay_fraction = config.schedule.decay_fraction},
          .accumulation = config.train.accumulation,
          .clip_norm = config.optim.clip_norm,
          .nan_limit = config.train.nan_limit,
          .spike_factor = config.train.spike_factor,
          .verify_every = config.device.verify_every,
          .verify_ranks_every = config.distribution.verify_every};
}

RunPlan run_plan(const RunConfig& config, const BatchSource* eval_source) {
  int64_t eval_batches = config.train.eval_batches;
  const int64_t whole = eval_source == nullptr ? 0 : static_cast<int64_t>(eval_source->batches_per_epoch());
  // More would begin a second epoch: some documents would count twice.
  if (whole > 0) eval_batches = eval_batches == 0 ? whole : std::min(eval_batches, whole);
  return {.steps = config.train.steps,
          .eval_every = config.train.eval_every,
          .eval_batches = eval_batches,
          .save_every = config.checkpoint.every,
          .sample_every = config.train.sample_every,
          .saves_at_end = config.checkpoint.at_end};
}

RunIdentity run_identity(const RunConfig& config, const ModelConfig& model, const std::string& data) {
  const std::string tokenizer = config.data.tokenizer.empty()
                                    ? "none"
                                    : hash_file(std::filesystem::path(config.data.tokenizer) / "tokenizer.json");
  return {{"model", model_text(model)},
          {"data", data},
          {"tokenizer", tokenizer},
          {"schedule", keys_text(config, {"optim.lr", "schedule.name", "schedule.warmup", "schedule.final_fraction",
                                          "schedule.decay_fraction", "train.steps"})},
          {"optimizer", keys_text(config, {"optim.name", "optim.betas", "optim.eps", "optim.weight_decay",
                                           "optim.clip_norm", "train.spike_factor", "train.z_loss"})},
          {"precision", precision_text(config)},
          {"batch", batch_text(config)},
          {"seed", std::to_string(config.seed)}};
}

}  // namespace litespark
