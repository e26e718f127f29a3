// SPDX-License-Identifier: Apache-2.0
#include "plan/memory_fit.h"

#include <algorithm>
#include <array>

#include "core/text_table.h"
#include "plan/stage_plan.h"
#include "spec/llama_program_checks.h"
#include "spec/run_program.h"

namespace litespark {
namespace {

/// From the cheapest to the most thorough.
constexpr std::array kByCost = {Recompute::kNone,          Recompute::kNormAct, Recompute::kAttention,
                                Recompute::kKeepAttention, Recompute::kBlock,   Recompute::kEveryK};

int64_t rank_of(Recompute recompute) {
  return std::find(kByCost.begin(), kByCost.end(), recompute) - kByCost.begin();
}

std::string key_text(RunConfig config, const char* key) {
  const Fields fields = Fields::of(config);
  return std::string(key) + " = " + value_text(*fields.find(key));
}

std::string batch_text(const RunConfig& config) {
  return key_text(config, "train.micro_batch") + " with " + key_text(config, "train.accumulation");
}

/// Whether a program is worth making to see what it takes: it can be made, and a row of the residual stream for each
/// token, which is the least of what it holds, fits already.
bool may_fit(const RunConfig& config, const MemoryQuestion& question) {
  const ProgramOptions options = training_options(config);
  if (!has_bounded_length(question.model, options)) return false;
  const int64_t rows = options.rank_tokens() / options.tensor_ranks;
  const double elements = static_cast<double>(rows) * static_cast<double>(question.model.hidden_size);
  return elements * static_cast<double>(dtype_bytes(options.compute)) <= static_cast<double>(question.budget_bytes);
}

FittingRun evaluated(const RunConfig& config, const MemoryQuestion& question) {
  const Program program = plan_stages(question.model, training_options(config), question.sizes).program;
  return {.config = config,
          .total_bytes = program.memory->total_bytes(),
          .step_seconds = predicted_step_seconds(program, config.train.accumulation, question.rates)};
}

/// The largest micro-batch that fits with the recompute option of `config`; of pipeline stages, which wait less the
/// more of them there are, the one whose step is fastest by prediction.
std::optional<FittingRun> best_micro_batch(RunConfig config, const MemoryQuestion& question) {
  const int64_t sequences = question.config.train.accumulation;
  std::optional<FittingRun> best;
  for (int64_t parts = 1; parts <= sequences; ++parts) {
    if (sequences % parts != 0) continue;
    // Interleaved stages take whole rounds of micro-batches.
    if (config.cluster.vpp > 1 && parts % config.cluster.pp != 0) continue;
    // A bf16 gradient is not accumulated.
    if (parts > 1 && config.precision.gradient != DType::kF32) break;
    config.train.micro_batch = sequences / parts;
    config.train.accumulation = parts;
    if (!may_fit(config, question)) continue;
    FittingRun run = evaluated(config, question);
    if (run.total_bytes > question.budget_bytes) continue;
    // More parts wait less and read weights more often: once that costs more, it goes on to.
    if (best && run.step_seconds >= best->step_seconds) break;
    best = std::move(run);
    if (config.cluster.pp == 1) break;
  }
  return best;
}

/// The question again with smaller number formats, from none to all, those with bit-equal results first.
std::vector<RunConfig> smaller_formats(const RunConfig& config) {
  std::vector<RunConfig> configs = {config};
  RunConfig smaller = config;
  if (smaller.precision.compute == DType::kBF16 && smaller.precision.master == MasterWeights::kF32) {
    smaller.precision.master = MasterWeights::kBF16Remainder;
    configs.push_back(smaller);
  }
  if (smaller.optim.moments == DType::kF32) {
    smaller.optim.moments = DType::kBF16;
    configs.push_back(smaller);
  }
  return configs;
}

std::optional<FittingRun> fit_with_formats_of(const RunConfig& config, const MemoryQuestion& question) {
  const MemoryQuestion same{config, question.model, question.sizes, question.budget_bytes, question.rates};
  if (config.train.micro_batch > 0) return fit_by_any_means(same);
  const std::vector<FittingRun> runs = fitting_micro_batches(same);
  return runs.empty() ? std::nullopt : std::optional(runs.front());
}

/// Whether the question allows this recompute option: none weaker than asked for, and offloading needs its own.
bool is_allowed(Recompute recompute, const RunConfig& config) {
  if (config.memory.offload != Offload::kNone) return recompute == Recompute::kBlock;
  return rank_of(recompute) >= rank_of(config.memory.recompute);
}

}  // namespace

int64_t planned_bytes(const MemoryQuestion& question) {
  return evaluated(question.config, question).total_bytes;
}

std::optional<FittingRun> fit_by_recompute(const MemoryQuestion& question) {
  if (!may_fit(question.config, question)) return std::nullopt;
  FittingRun run{.config = question.config};
  run.config.memory.recompute_every = std::min(run.config.memory.recompute_every, question.model.num_hidden_layers);
  for (const Recompute recompute : kByCost) {
    if (!is_allowed(recompute, question.config)) continue;
    run.config.memory.recompute = recompute;
    run = evaluated(run.config, question);
    if (run.total_bytes <= question.budget_bytes) return run;
  }
  return std::nullopt;
}

std::optional<FittingRun> fit_by_any_means(const MemoryQuestion& question) {
  RunConfig smaller = question.config;
  for (;;) {
    if (auto run = fit_by_recompute({smaller, question.model, question.sizes, question.budget_bytes, question.rates}))
      return run;
    const bool can_be_halved = smaller.train.micro_batch % 2 == 0 && smaller.precision.gradient == DType::kF32;
    if (!can_be_halved) return std::nullopt;
    smaller.train.micro_batch /= 2;
    smaller.train.accumulation *= 2;
  }
}

std::vector<FittingRun> fitting_micro_batches(const MemoryQuestion& question) {
  std::vector<FittingRun> runs;
  RunConfig config = question.config;
  config.memory.recompute_every = std::min(config.memory.recompute_every, question.model.num_hidden_layers);
  for (const Recompute recompute : kByCost) {
    if (!is_allowed(recompute, question.config)) continue;
    config.memory.recompute = recompute;
    if (auto run = best_micro_batch(config, question)) runs.push_back(std::move(*run));
  }
  std::stable_sort(runs.begin(), runs.end(),
                   [](const FittingRun& a, const FittingRun& b) { return a.step_seconds < b.step_seconds; });
  return runs;
}

std::string choice_text(const std::vector<FittingRun>& runs, int64_t budget_bytes) {
  const FittingRun& first = runs.front();
  std::string text = batch_text(first.config) + " and " + key_text(first.config, "memory.recompute") + ": " +
                     bytes_text(first.total_bytes) + " of " + bytes_text(budget_bytes);
  if (runs.size() > 1) {
    const FittingRun& second = runs[1];
    text += "; " + key_text(second.config, "memory.recompute") + " would fit with " +
            key_text(second.config, "train.micro_batch") + ", " +
            fixed_text(100.0 * (second.step_seconds / first.step_seconds - 1.0)) + " % slower by prediction";
  }
  return text;
}

std::string fitting_advice(const MemoryQuestion& question) {
  const RunConfig& asked = question.config;
  for (const RunConfig& formats : smaller_formats(asked)) {
    const std::optional<FittingRun> run = fit_with_formats_of(formats, question);
    if (!run) continue;
    std::string text;
    const auto add = [&](const std::string& part) { text += (text.empty() ? "" : " and ") + part; };
    if (run->config.train.micro_batch != asked.train.micro_batch) add(batch_text(run->config));
    for (const char* key : {"memory.recompute", "precision.master", "optim.moments"}) {
      if (key_text(run->config, key) != key_text(asked, key)) add(key_text(run->config, key));
    }
    return text + " would fit, with " + bytes_text(run->total_bytes);
  }
  return "no recompute option, no smaller micro-batch and no smaller number format fits: shorten data.seq_len or take "
         "a smaller model";
}

}  // namespace litespark
