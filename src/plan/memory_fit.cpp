// SPDX-License-Identifier: Apache-2.0
#include "plan/memory_fit.h"

#include <algorithm>
#include <array>

#include "core/text_table.h"
#include "spec/run_program.h"

namespace litespark {
namespace {

/// From the cheapest to the most thorough.
constexpr std::array kByCost = {Recompute::kNone, Recompute::kNormAct, Recompute::kAttention, Recompute::kBlock,
                                Recompute::kEveryK};

int64_t rank_of(Recompute recompute) {
  return std::find(kByCost.begin(), kByCost.end(), recompute) - kByCost.begin();
}

std::string recompute_text(RunConfig config) {
  const Fields fields = Fields::of(config);
  return "memory.recompute = " + value_text(*fields.find("memory.recompute"));
}

}  // namespace

int64_t planned_bytes(const MemoryQuestion& question) {
  const Program program = make_llama_program(question.model, training_options(question.config), question.sizes);
  return program.memory->total_bytes();
}

std::optional<FittingRun> fit_by_recompute(const MemoryQuestion& question) {
  FittingRun run{.config = question.config};
  run.config.memory.recompute_every = std::min(run.config.memory.recompute_every, question.model.num_hidden_layers);
  for (const Recompute recompute : kByCost) {
    if (rank_of(recompute) < rank_of(question.config.memory.recompute)) continue;
    run.config.memory.recompute = recompute;
    run.total_bytes = planned_bytes({run.config, question.model, question.sizes});
    if (run.total_bytes <= question.budget_bytes) return run;
  }
  return std::nullopt;
}

std::optional<FittingRun> fit_by_any_means(const MemoryQuestion& question) {
  RunConfig smaller = question.config;
  for (;;) {
    if (auto run = fit_by_recompute({smaller, question.model, question.sizes, question.budget_bytes})) return run;
    if (smaller.train.micro_batch % 2 != 0) return std::nullopt;
    smaller.train.micro_batch /= 2;
    smaller.train.accumulation *= 2;
  }
}

std::string fitting_advice(const MemoryQuestion& question) {
  const std::optional<FittingRun> run = fit_by_any_means(question);
  if (!run) return "no recompute option and no smaller micro-batch fits: shorten data.seq_len or take a smaller model";
  std::string text;
  if (run->config.train.micro_batch != question.config.train.micro_batch) {
    text = "train.micro_batch = " + std::to_string(run->config.train.micro_batch) +
           " with train.accumulation = " + std::to_string(run->config.train.accumulation);
  }
  if (run->config.memory.recompute != question.config.memory.recompute) {
    text += (text.empty() ? "" : " and ") + recompute_text(run->config);
  }
  return text + " would fit, with " + bytes_text(run->total_bytes);
}

}  // namespace litespark
