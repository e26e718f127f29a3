// SPDX-License-Identifier: Apache-2.0
#include "anatomy/collectives.h"

#include <algorithm>

#include "anatomy/workspace.h"
#include "dist/local_world.h"
#include "meter/energy.h"
#include "plan/collective_time.h"
#include "train/trainer.h"

namespace litespark::anatomy {
namespace {

constexpr int kFewestRuns = 5;
constexpr int kMostRuns = 200;

/// Median seconds of a call that all ranks make together; every rank makes the same number of them.
double time_call(Communicator& communicator, Backend& backend, int runs, const std::function<CommTicket()>& call) {
  std::vector<double> seconds;
  for (int run = 0; run <= runs; ++run) {
    communicator.barrier();
    const double start = monotonic_seconds();
    communicator.wait(call());
    backend.synchronize();
    if (run > 0) seconds.push_back(monotonic_seconds() - start);  // the first one makes buffers
  }
  return median_of(seconds);
}

/// About `seconds` of calls; the same answer on every rank, so that it cannot follow from anybody's clock.
int runs_for(double seconds, int64_t bytes) {
  const double guess = 1e-4 + static_cast<double>(bytes) / 1e9;
  return std::clamp(static_cast<int>(seconds / guess), kFewestRuns, kMostRuns);
}

CollectiveTimes time_size(Communicator& communicator, Backend& backend, const MeasureOptions& options, int64_t bytes) {
  const int64_t piece = std::max<int64_t>(1, bytes / 4 / communicator.size());
  Workspace workspace(backend);
  const Tensor whole = workspace.zeros(DType::kF32, {piece * communicator.size()});
  Tensor own = whole;
  own.data = static_cast<float*>(whole.data) + communicator.rank() * piece;
  own.shape = {piece};
  const int runs = runs_for(options.seconds / 3, bytes);
  return {.bytes = whole.bytes(),
          .all_reduce =
              time_call(communicator, backend, runs, [&] { return communicator.all_reduce(whole, Reduction::kSum); }),
          .reduce_scatter = time_call(communicator, backend, runs,
                                      [&] { return communicator.reduce_scatter(own, whole, Reduction::kSum); }),
          .all_gather = time_call(communicator, backend, runs, [&] { return communicator.all_gather(whole, own); })};
}

/// Adds up the host's time inside waits for the communicator.
class WaitWatcher final : public OpObserver {
 public:
  void before(const TapeEntry& entry) override {
    if (std::holds_alternative<op::CommWait<TensorId>>(entry.op)) start_ = monotonic_seconds();
  }
  void after(const TapeEntry& entry) override {
    if (std::holds_alternative<op::CommWait<TensorId>>(entry.op)) waited_ += monotonic_seconds() - start_;
  }
  double waited() const { return waited_; }

 private:
  double start_ = 0;
  double waited_ = 0;
};

double exposed_share_of(Communicator& communicator, Backend& backend, const MeasureOptions& options,
                        const ModelSizes& model) {
  constexpr int kSteps = 4;
  ProgramOptions program = train_options(model, options.compute);
  program.data_ranks = communicator.size();
  program.data_rank = communicator.rank();
  PreparedModel prepared(backend, model, program, &communicator);
  prepared.run_step();
  WaitWatcher watcher;
  prepared.executor().set_observer(&watcher);
  communicator.barrier();
  const double start = monotonic_seconds();
  for (int step = 0; step < kSteps; ++step) prepared.run_step();
  backend.synchronize();
  const double whole = monotonic_seconds() - start;
  prepared.executor().set_observer(nullptr);
  communicator.barrier();
  return watcher.waited() / whole;
}

double bus_rate(double bytes, double seconds, Collective kind, int ranks) {
  return bus_factor(kind, ranks) * bytes / seconds;
}

Table size_table(const RankWorld& world, const std::vector<CollectiveTimes>& times) {
  Table table{.key = world.name,
              .title = world.name + ", " + std::to_string(world.size) + " ranks",
              .columns = {"array", "all-reduce", "bus GB/s", "reduce-scatter", "bus GB/s", "all-gather", "bus GB/s"},
              .rows = {}};
  for (const CollectiveTimes& one : times) {
    std::vector<Value> row = {bytes_value(static_cast<double>(one.bytes))};
    for (const auto& [kind, seconds] : {std::pair{Collective::kAllReduce, one.all_reduce},
                                        {Collective::kReduceScatter, one.reduce_scatter},
                                        {Collective::kAllGather, one.all_gather}}) {
      row.push_back(seconds_value(seconds));
      row.push_back(quantity(bus_rate(static_cast<double>(one.bytes), seconds, kind, world.size) / 1e9, "", 2));
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

/// The claim's arrays of 100 MB over 1024 ranks by the formula, in the only reading of its units that comes near.
std::vector<Finding> published_findings() {
  const double as_written = ring_formula_seconds(1e8, 1024, 1.2e-6, 65e-9);
  const double in_pico = ring_formula_seconds(1e8, 1024, 1.2e-6, 65e-12);
  return {{.key = "formula_as_written",
           .what = "the claim's formula, 1024 ranks, 100 MB, 65 ns a byte",
           .ours = seconds_value(as_written),
           .claim = "C9",
           .published = "28.3 ms"},
          {.key = "formula_in_ps",
           .what = "the same with 65 ps a byte",
           .ours = seconds_value(in_pico),
           .claim = "C9",
           .published = "28.3 ms",
           .advice = "no reading of the unit gives both of the claim's rows; measure alpha and beta as above instead"}};
}

std::vector<Finding> world_findings(const RankWorld& world, const std::vector<CollectiveTimes>& times) {
  const RingConstants ring = ring_constants(times, world.size);
  const CollectiveTimes& largest = times.back();
  const double formula = ring_formula_seconds(static_cast<double>(largest.bytes) / 4, world.size, ring.alpha_seconds,
                                              ring.beta_seconds_a_byte);
  double measured = largest.all_reduce;
  for (const CollectiveTimes& one : times) {
    if (one.bytes <= largest.bytes / 4) measured = one.all_reduce;
  }
  return {{.key = world.name + "_alpha",
           .what = world.name + ": latency a hop (alpha)",
           .ours = seconds_value(ring.alpha_seconds),
           .claim = "C9",
           .published = "1.2 us (InfiniBand 200G), 0.8 us (400G)"},
          {.key = world.name + "_beta",
           .what = world.name + ": time a byte (beta)",
           .ours = quantity(ring.beta_seconds_a_byte * 1e12, "ps", 1),
           .claim = "C9",
           .published = "65 and 32 ns"},
          {.key = world.name + "_formula",
           .what = world.name + ": formula over measured at a quarter of the largest array",
           .ours = factor(formula / measured)}};
}

}  // namespace

RankWorld local_world(int size, std::function<std::shared_ptr<Backend>()> make_backend) {
  return {.name = "local",
          .size = size,
          .run = [size](const auto& body) { run_local_ranks(size, {}, body); },
          .make_backend = std::move(make_backend)};
}

std::vector<CollectiveTimes> measure_collectives(const RankWorld& world, const MeasureOptions& options,
                                                 const std::vector<int64_t>& bytes) {
  std::vector<CollectiveTimes> times;
  world.run([&](Communicator& communicator) {
    const std::shared_ptr<Backend> backend = world.make_backend();
    for (const int64_t size : bytes) {
      const CollectiveTimes one = time_size(communicator, *backend, options, size);
      if (communicator.rank() == 0) times.push_back(one);
    }
  });
  return times;
}

RingConstants ring_constants(const std::vector<CollectiveTimes>& times, int ranks) {
  if (times.empty() || ranks < 2) return {};
  const double hops = 2.0 * (ranks - 1);
  const CollectiveTimes& smallest = times.front();
  const CollectiveTimes& largest = times.back();
  const double moved = bus_factor(Collective::kAllReduce, ranks) * static_cast<double>(largest.bytes);
  return {.alpha_seconds = smallest.all_reduce / hops,
          .beta_seconds_a_byte = std::max(0.0, largest.all_reduce - smallest.all_reduce) / moved};
}

double measure_exposed_share(const RankWorld& world, const MeasureOptions& options, const ModelSizes& model) {
  double share = 0;
  world.run([&](Communicator& communicator) {
    const std::shared_ptr<Backend> backend = world.make_backend();
    const double own = exposed_share_of(communicator, *backend, options, model);
    if (communicator.rank() == 0) share = own;
  });
  return share;
}

Chapter collectives_chapter(const std::vector<RankWorld>& worlds, const MeasureOptions& options,
                            const CollectiveSizes& sizes, Hardware* measured) {
  Chapter chapter{.name = "collectives", .title = "what ranks pay to agree"};
  for (const RankWorld& world : worlds) {
    const std::vector<CollectiveTimes> times = measure_collectives(world, options, sizes.bytes);
    const double exposed = measure_exposed_share(world, options, sizes.model);
    if (times.empty()) continue;  // rank 0 is another process, and speaks
    chapter.setup.emplace_back(world.name, std::to_string(world.size) + " ranks");
    for (Finding& finding : world_findings(world, times)) chapter.findings.push_back(std::move(finding));
    chapter.tables.push_back(size_table(world, times));
    if (measured != nullptr) {
      const CollectiveTimes& largest = times.back();
      const double rate =
          bus_rate(static_cast<double>(largest.bytes), largest.all_reduce, Collective::kAllReduce, world.size);
      measured->link_gbps = rate / ring_share(Collective::kAllReduce, world.size) / 1e9;
      measured->devices_a_node = world.size;
    }
    chapter.findings.push_back({.key = world.name + "_exposed",
                                .what = world.name + ": share of a step that waits for calls",
                                .ours = percent(exposed),
                                .claim = "C3",
                                .published = "useful compute 89, 63, 41 % at 64, 512, 4096 GPUs",
                                .advice =
                                    "accumulate more micro-batches a step: the calls stay as many, the arithmetic "
                                    "between them grows"});
  }
  for (Finding& finding : published_findings()) chapter.findings.push_back(std::move(finding));
  chapter.setup.emplace_back("step", sizes.model.text() + " a rank");
  return chapter;
}

}  // namespace litespark::anatomy
