// SPDX-License-Identifier: Apache-2.0
#include "anatomy/fragmentation.h"

#include <algorithm>

#include "core/error.h"
#include "core/rng.h"
#include "spec/program.h"

namespace litespark::anatomy {
namespace {

constexpr uint64_t kLengthsStream = 0x6c656e67746873;

struct Outcome {
  int64_t length = 0;
  int64_t live = 0;             ///< largest sum of living tensors: what no allocator can go below
  int64_t planned = 0;          ///< our arena
  int64_t reserved = 0;         ///< the caching allocator's after one step
  int64_t reserved_varied = 0;  ///< after steps of several lengths, none longer
  double lost(int64_t of) const { return 1 - static_cast<double>(live) / static_cast<double>(of); }
  double swing() const { return static_cast<double>(reserved_varied) / static_cast<double>(reserved) - 1; }
};

Program step_program(const BackendSizes& sizes, ModelSizes model, DType compute, int64_t length) {
  model.length = length;
  return make_llama_program(model.config(), train_options(model, compute), sizes);
}

PhaseLifetimes step_lifetimes(const Program& program) {
  return tape_lifetimes(*program.tape(Phase::kTrainFirst), program.tensors);
}

/// Lengths as padding to a batch's longest sequence makes them: multiples of 8, the longest one last.
std::vector<int64_t> varied_lengths(int64_t longest, int num_steps) {
  const RandomStream random(1, kLengthsStream);
  std::vector<int64_t> lengths;
  for (int step = 1; step < num_steps; ++step) {
    const double share = 0.5 + 0.5 * random.uniform(static_cast<uint64_t>(step));
    lengths.push_back(std::max<int64_t>(static_cast<int64_t>(share * static_cast<double>(longest)) / 8 * 8, 1));
  }
  lengths.push_back(longest);
  return lengths;
}

int64_t reserved_after(const BackendSizes& sizes, const FragmentationSizes& wanted, DType compute,
                       const std::vector<int64_t>& lengths) {
  CachingAllocator allocator;
  for (const int64_t length : lengths) {
    const Program program = step_program(sizes, wanted.model, compute, length);
    replay_lifetimes(allocator, program.tensors, step_lifetimes(program));
  }
  return allocator.reserved_bytes();
}

Outcome replay(const BackendSizes& sizes, const FragmentationSizes& wanted, DType compute, int64_t length) {
  const Program program = step_program(sizes, wanted.model, compute, length);
  const auto& phases = program.memory->phases();
  const auto phase = std::find_if(phases.begin(), phases.end(),
                                  [](const PhasePeak& peak) { return peak.phase == phase_name(Phase::kTrainFirst); });
  return {.length = length,
          .live = phase->live_bytes,
          .planned = phase->arena_bytes,
          .reserved = reserved_after(sizes, wanted, compute, {length}),
          .reserved_varied = reserved_after(sizes, wanted, compute, varied_lengths(length, wanted.num_steps))};
}

struct Published {
  int64_t length;
  const char* lost;
  const char* swing;
};
constexpr Published kPublished[] = {{2048, "8.2 %", "3.1 %"}, {8192, "27.6 %", "14.8 %"}, {16384, "39.4 %", "22.3 %"}};

std::string published_of(int64_t length, const char* Published::*figure) {
  for (const Published& row : kPublished) {
    if (row.length == length) return row.*figure;
  }
  return "-";
}

Table length_table(const std::vector<Outcome>& outcomes) {
  Table table{.key = "lengths",
              .title = "temporary tensors of one step, and of several",
              .columns = {"tokens", "living at most", "our plan", "lost", "cached", "lost", "claim:C11",
                          "cached, lengths vary", "lost", "grown by", "claim:C11"},
              .rows = {}};
  for (const Outcome& one : outcomes) {
    table.rows.push_back({quantity(static_cast<double>(one.length), "", 0), bytes_value(static_cast<double>(one.live)),
                          bytes_value(static_cast<double>(one.planned)), percent(one.lost(one.planned)),
                          bytes_value(static_cast<double>(one.reserved)), percent(one.lost(one.reserved)),
                          words(published_of(one.length, &Published::lost)),
                          bytes_value(static_cast<double>(one.reserved_varied)), percent(one.lost(one.reserved_varied)),
                          percent(one.swing()), words(published_of(one.length, &Published::swing))});
  }
  return table;
}

}  // namespace

void replay_lifetimes(CachingAllocator& allocator, const TensorTable& tensors, const PhaseLifetimes& phase) {
  std::vector<std::vector<size_t>> born(static_cast<size_t>(phase.num_ops));
  std::vector<std::vector<size_t>> dying(static_cast<size_t>(phase.num_ops));
  for (size_t i = 0; i < phase.lifetimes.size(); ++i) {
    born[static_cast<size_t>(phase.lifetimes[i].first)].push_back(i);
    dying[static_cast<size_t>(phase.lifetimes[i].last)].push_back(i);
  }
  std::vector<CachingAllocator::Place> places(phase.lifetimes.size());
  for (size_t op = 0; op < born.size(); ++op) {
    for (const size_t i : born[op]) places[i] = allocator.allocate(tensors[phase.lifetimes[i].tensor].bytes());
    for (const size_t i : dying[op]) allocator.release(places[i]);
  }
}

Chapter fragmentation_chapter(const BackendSizes& sizes, DType compute, const FragmentationSizes& wanted) {
  Chapter chapter{.name = "fragmentation", .title = "one step's tensors in a caching allocator and in our plan"};
  ModelSizes longest = wanted.model;
  longest.length = *std::max_element(wanted.lengths.begin(), wanted.lengths.end());
  chapter.setup = {
      {"model", longest.text()},
      {"computed", "no memory is taken; the allocator is a model of PyTorch's rules; steps vary in length " +
                       std::to_string(wanted.num_steps) + " times, between half and all of it"}};
  std::vector<Outcome> outcomes;
  for (const int64_t length : wanted.lengths) outcomes.push_back(replay(sizes, wanted, compute, length));
  double plan = 0;
  double cached = 0;
  double least_use = 1;
  double most_use = 0;
  for (const Outcome& one : outcomes) {
    plan = std::max(plan, one.lost(one.planned));
    cached = std::max(cached, one.lost(one.reserved_varied));
    least_use = std::min(least_use, 1 - one.lost(one.reserved_varied));
    most_use = std::max(most_use, 1 - one.lost(one.reserved_varied));
  }
  chapter.findings = {
      {.key = "plan_lost", .what = "lost at worst, our plan", .ours = percent(plan)},
      {.key = "cached_lost",
       .what = "lost at worst, caching allocator",
       .ours = percent(cached),
       .claim = "C11",
       .published = "8.2 % at 2k, 27.6 % at 8k, 39.4 % at 16k",
       .advice =
           "plan memory before the run, for the longest step (`litespark plan` prints it): what varies then is the "
           "use of an arena, never its size"},
      {.key = "cached_use",
       .what = "use of what is cached",
       .ours = {.text = percent(least_use).text + " to " + percent(most_use).text,
                .number = least_use,
                .unit = "share"},
       .claim = "C11",
       .published = "63 to 92 %"}};
  chapter.tables = {length_table(outcomes)};
  return chapter;
}

}  // namespace litespark::anatomy
