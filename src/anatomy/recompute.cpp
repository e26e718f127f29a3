// SPDX-License-Identifier: Apache-2.0
#include "anatomy/recompute.h"

#include <algorithm>
#include <bit>

namespace litespark::anatomy {
namespace {

struct Option {
  std::string name;
  Recompute recompute = Recompute::kNone;
  int64_t every = 1;
};

std::vector<Option> all_options(int64_t layers) {
  std::vector<Option> options = {{"none", Recompute::kNone},
                                 {"norm-act", Recompute::kNormAct},
                                 {"attention", Recompute::kAttention},
                                 {"keep_attention", Recompute::kKeepAttention},
                                 {"block", Recompute::kBlock}};
  for (int64_t k = 1; k <= layers; ++k) options.push_back({"every " + std::to_string(k), Recompute::kEveryK, k});
  return options;
}

struct Outcome {
  std::string name;
  double seconds = 0;
  double bytes = 0;  ///< of the arena
  bool is_bit_equal = false;
};

double arena_bytes(const Program& program) {
  for (const PhasePeak& phase : program.memory->phases()) {
    if (phase.phase == phase_name(Phase::kTrainFirst)) return static_cast<double>(phase.arena_bytes);
  }
  return 0;
}

bool is_same(const std::vector<float>& a, const std::vector<float>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](float x, float y) { return std::bit_cast<uint32_t>(x) == std::bit_cast<uint32_t>(y); });
}

/// Peak memory of a published model's step by the plan, over that without recomputation; the smallest of k up to 10.
double planned_saving(const BackendSizes& backend_sizes, const ModelSizes& sizes, DType compute) {
  ProgramOptions options = train_options(sizes, compute);
  const Program plain = make_llama_program(sizes.config(), options, backend_sizes);
  const auto total = [](const Program& program) { return static_cast<double>(program.memory->total_bytes()); };
  double best = total(plain);
  options.recompute = Recompute::kEveryK;
  // The smallest lies near sqrt(L); a plan of many layers takes a while.
  for (options.recompute_every = 2; options.recompute_every <= 10; ++options.recompute_every) {
    best = std::min(best, total(make_llama_program(sizes.config(), options, backend_sizes)));
  }
  return 1 - best / total(plain);
}

Table option_table(const std::vector<Outcome>& outcomes) {
  Table table{.key = "options",
              .title = "forward and backward of one micro-batch",
              .columns = {"recompute", "time", "slower", "temporary memory", "saved", "gradients"},
              .rows = {}};
  const Outcome& none = outcomes.front();
  for (const Outcome& one : outcomes) {
    table.rows.push_back(
        {words(one.name),
         seconds_value(one.seconds),
         percent(one.seconds / none.seconds - 1),
         bytes_value(one.bytes),
         percent(1 - one.bytes / none.bytes),
         {.text = one.is_bit_equal ? "same bits" : "differ", .number = one.is_bit_equal ? 1.0 : 0.0, .unit = "bool"}});
  }
  return table;
}

std::vector<Finding> findings_of(const std::vector<Outcome>& outcomes, double saved_7b, double saved_xl) {
  const Outcome& none = outcomes.front();
  const auto smallest = std::min_element(outcomes.begin(), outcomes.end(),
                                         [](const Outcome& a, const Outcome& b) { return a.bytes < b.bytes; });
  const auto selective =
      std::find_if(outcomes.begin(), outcomes.end(), [](const Outcome& one) { return one.name == "norm-act"; });
  const bool all_equal =
      std::all_of(outcomes.begin(), outcomes.end(), [](const Outcome& one) { return one.is_bit_equal; });
  const auto against = [&](const Outcome& one) {
    return percent(1 - one.bytes / none.bytes).text + " for " + percent(one.seconds / none.seconds - 1).text;
  };
  return {{.key = "least_memory",
           .what = "least memory: " + smallest->name,
           .ours = {.text = against(*smallest), .number = smallest->bytes / none.bytes, .unit = "x"},
           .claim = "C10",
           .published = "O(sqrt n) memory for +50 % time",
           .advice = "take the first row below that fits; the trainer does when memory.budget = \"auto\""},
          {.key = "selective",
           .what = "selective: norm-act",
           .ours = {.text = against(*selective), .number = selective->bytes / none.bytes, .unit = "x"}},
          {.key = "planned_7b",
           .what = "LLaMA-7B, 1 x 2048, all memory (planned)",
           .ours = percent(saved_7b),
           .claim = "C10",
           .published = "38.2 -> 21.6 GB (43.5 %), -18.3 % speed"},
          {.key = "planned_gpt2_xl",
           .what = "48 x 1600, 8 x 1024, all memory (planned)",
           .ours = percent(saved_xl),
           .claim = "C10",
           .published = "29.5 -> 16.1 GB (45.4 %), -14.7 % speed"},
          {.key = "bit_equal",
           .what = "gradients of all options, bit for bit",
           .ours = {.text = all_equal ? "the same" : "differ", .number = all_equal ? 1.0 : 0.0, .unit = "bool"}}};
}

}  // namespace

Chapter recompute_chapter(Backend& backend, const MeasureOptions& options, const ModelSizes& sizes) {
  std::vector<Outcome> outcomes;
  std::vector<float> expected;
  for (const Option& option : all_options(sizes.layers)) {
    ProgramOptions program_options = train_options(sizes, options.compute);
    program_options.recompute = option.recompute;
    program_options.recompute_every = option.every;
    PreparedModel model(backend, sizes, program_options);
    const Timing timing = time_runs(backend, options.seconds, [&] { model.run(); });
    std::vector<float> gradients = model.gradients();
    if (expected.empty()) expected = gradients;
    outcomes.push_back({.name = option.name,
                        .seconds = timing.median_seconds,
                        .bytes = arena_bytes(model.executor().program()),
                        .is_bit_equal = is_same(gradients, expected)});
  }
  constexpr ModelSizes k7B = {.vocab = 32000,
                              .hidden = 4096,
                              .ffn = 11008,
                              .layers = 32,
                              .heads = 32,
                              .kv_heads = 32,
                              .sequences = 1,
                              .length = 2048};
  constexpr ModelSizes kXl = {.vocab = 50304,
                              .hidden = 1600,
                              .ffn = 4288,
                              .layers = 48,
                              .heads = 25,
                              .kv_heads = 25,
                              .sequences = 8,
                              .length = 1024};
  Chapter chapter{.name = "recompute", .title = "memory against time"};
  chapter.setup = {{"model", sizes.text()}, {"compute", std::string(dtype_name(options.compute))}};
  chapter.findings = findings_of(outcomes, planned_saving(backend.sizes(), k7B, DType::kBF16),
                                 planned_saving(backend.sizes(), kXl, DType::kBF16));
  chapter.tables = {option_table(outcomes)};
  return chapter;
}

}  // namespace litespark::anatomy
