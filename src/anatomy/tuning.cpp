// SPDX-License-Identifier: Apache-2.0
#include "anatomy/tuning.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/rng.h"
#include "model/weights.h"
#include "train/trainer.h"

namespace litespark::anatomy {
namespace {

constexpr uint64_t kPatternStream = 0x7061747465726e;
constexpr std::array<double, 4> kChances = {0.6, 0.2, 0.15, 0.05};
constexpr int64_t kEvalBatches = 4;
/// Held-out sequences come from far behind those that are trained on.
constexpr uint64_t kHeldOut = 1 << 20;

class HeldOut final : public BatchSource {
 public:
  explicit HeldOut(const PatternSource& source) : source_(source) {}
  void fill(uint64_t index, Batch& batch) const override { source_.fill(kHeldOut + index, batch); }
  uint64_t batches_per_epoch() const override { return 0; }
  std::string fingerprint() const override { return source_.fingerprint(); }

 private:
  const PatternSource& source_;
};

/// Where the losses first are half way from the first to the last, over their number. Means of a few steps, since one
/// micro-batch is noisy.
double half_way(const std::vector<double>& losses) {
  constexpr size_t kMean = 5;
  const auto mean_at = [&](size_t first) {
    double sum = 0;
    const size_t count = std::min(kMean, losses.size() - first);
    for (size_t i = first; i < first + count; ++i) sum += losses[i];
    return sum / static_cast<double>(count);
  };
  const size_t last = losses.size() - std::min(kMean, losses.size());
  const double middle = 0.5 * (mean_at(0) + mean_at(last));
  for (size_t i = 0; i <= last; ++i) {
    if (mean_at(i) <= middle) return static_cast<double>(i) / static_cast<double>(losses.size());
  }
  return 1;
}

Table run_table(const std::vector<TuningRun>& runs) {
  Table table{.key = "runs",
              .title = "the same tokens, one setting changed",
              .columns = {"run", "warm-up", "clip", "micro-batches a step", "loss held out", "half of the fall after",
                          "steps clipped"},
              .rows = {}};
  for (const TuningRun& run : runs) {
    table.rows.push_back({words(run.name), quantity(static_cast<double>(run.warmup), "", 0), quantity(run.clip, "", 1),
                          quantity(static_cast<double>(run.accumulation), "", 0), quantity(run.loss, "", 4),
                          percent(run.half_way_step), percent(run.clipped_share)});
  }
  return table;
}

Value change(double from, double to) {
  return {.text = quantity(from, "", 4).text + " -> " + quantity(to, "", 4).text, .number = to - from, .unit = "nats"};
}

}  // namespace

void PatternSource::fill(uint64_t index, Batch& batch) const {
  const RandomStream random(seed_, kPatternStream);
  const auto vocab = static_cast<uint64_t>(vocab_);
  const auto length = static_cast<size_t>(shape_.max_length);
  const auto rows = static_cast<uint64_t>(shape_.num_tokens / shape_.max_length);
  std::vector<int32_t>& row = batch.row;
  row.resize(length + 1);
  for (uint64_t r = 0; r < rows; ++r) {
    const uint64_t first = (index * rows + r) * (length + 1);
    uint64_t token = random.below(first, vocab);
    for (size_t i = 0; i < row.size(); ++i) {
      row[i] = static_cast<int32_t>(token);
      double chance = random.uniform(first + i);
      uint64_t branch = 0;
      while (branch + 1 < kChances.size() && chance > kChances[branch]) chance -= kChances[branch++];
      token = (token * 31 + 7 * branch + 3) % vocab;
    }
    batch.append_shifted(std::span(row).first(length), row[length]);
  }
}

double PatternSource::least_loss() {
  double entropy = 0;
  for (const double chance : kChances) entropy -= chance * std::log(chance);
  return entropy;
}

TuningRun train_run(Backend& backend, const MeasureOptions& options, const TuningSizes& sizes, TuningRun run) {
  ProgramOptions program = train_options(sizes.model, options.compute);
  program.residual = DType::kF32;
  program.accumulates = run.accumulation > 1;
  Executor executor(make_llama_program(sizes.model.config(), program, backend.sizes()), backend);
  initialise_weights(executor, 1);
  const PatternSource source(1, sizes.model.vocab, program.batch);
  Batch batch;
  const int64_t steps = std::max<int64_t>(1, sizes.steps / run.accumulation);
  Trainer trainer(executor,
                  {.schedule = {.peak = sizes.learning_rate, .warmup_steps = run.warmup, .total_steps = steps},
                   .accumulation = run.accumulation,
                   .clip_norm = run.clip},
                  [&](uint64_t index) -> const Batch& {
                    batch.reset(program.batch);
                    source.fill(index, batch);
                    return batch;
                  });
  std::vector<double> losses;
  int64_t clipped = 0;
  for (int64_t step = 0; step < steps; ++step) {
    const StepRecord record = trainer.step_and_finish();
    losses.push_back(record.loss);
    clipped += run.clip > 0 && record.grad_norm > run.clip ? 1 : 0;
  }
  run.loss = trainer.evaluate(HeldOut(source), kEvalBatches)->loss;
  run.half_way_step = half_way(losses);
  run.clipped_share = static_cast<double>(clipped) / static_cast<double>(steps);
  return run;
}

Chapter tuning_chapter(Backend& backend, const MeasureOptions& options, const TuningSizes& sizes) {
  // The claim's 2,000 and 900 steps of about 10,000, as shares of these short runs.
  const int64_t longer = std::max<int64_t>(1, sizes.steps / 5);
  const int64_t shorter = std::max<int64_t>(1, sizes.steps * 9 / 100);
  std::vector<TuningRun> runs = {{.name = "base", .warmup = longer},
                                 {.name = "shorter warm-up", .warmup = shorter},
                                 {.name = "clip 0.8", .warmup = longer, .clip = 0.8},
                                 {.name = "both", .warmup = shorter, .clip = 0.8},
                                 {.name = "step of 4", .warmup = std::max<int64_t>(1, longer / 4), .accumulation = 4}};
  for (TuningRun& run : runs) run = train_run(backend, options, sizes, run);
  Chapter chapter{.name = "tuning", .title = "the advice on settings, tried on short runs"};
  chapter.setup = {
      {"model", sizes.model.text() + " a micro-batch"},
      {"data", "a made-up language whose least loss is " + quantity(PatternSource::least_loss(), "nats", 4).text +
                   "; " + std::to_string(sizes.steps) + " micro-batches, peak rate " +
                   quantity(sizes.learning_rate, "", 4).text + ", cosine"}};
  chapter.findings = {
      {.key = "warm_up",
       .what = "warm-up " + std::to_string(longer) + " -> " + std::to_string(shorter) + " steps, held-out loss",
       .ours = change(runs[0].loss, runs[1].loss),
       .claim = "L13",
       .published = "2000 -> 800-1000 steps",
       .advice =
           "steps of warm-up are steps below the learning rate; Adam's second moment needs 2 / (1 - beta2) of them "
           "(40 at 0.95). `litespark plan` judges a run's own"},
      {.key = "clip",
       .what = "clip 1.0 -> 0.8, held-out loss",
       .ours = change(runs[0].loss, runs[2].loss),
       .claim = "L13",
       .published = "1.0 -> 0.8",
       .advice = "clipping acts on the share of steps above it (" + percent(runs[0].clipped_share).text +
                 " here at 1.0, " + percent(runs[2].clipped_share).text +
                 " at 0.8): where that is small, the setting does nothing"},
      {.key = "batch",
       .what = "tokens a step x 4, same tokens, held-out loss",
       .ours = change(runs[0].loss, runs[4].loss),
       .claim = "L13",
       .published = "global batch up to 512 past 128 GPUs",
       .advice =
           "a larger step pays in time on many devices and costs loss for the same tokens: grow it only as far as "
           "the exposed communication of `litespark anatomy collectives` asks for"}};
  chapter.tables = {run_table(runs)};
  return chapter;
}

}  // namespace litespark::anatomy
