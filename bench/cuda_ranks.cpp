// SPDX-License-Identifier: Apache-2.0
// Training on several GPUs of one machine against one, by the trainer itself with random tokens: a thread a GPU, NCCL
// between them.
//   bench_cuda_ranks RUN.toml STEPS CASE[,CASE...] [--section.key=value ...]
// A case is a number of GPUs, with "g" where phases in which ranks meet are recorded as CUDA graphs, "w" where the
// thread that makes a call waits until NCCL has put it on the stream, "bN" for at most N blocks of NCCL's, "hN" for
// sums in two levels as between hosts of N GPUs, "tN" for replicas of N tensor-parallel GPUs, and "aN" for N
// micro-batches a step instead of the file's: 1,2,2g,2wb8,2t2,8h4,1a32,8a4. Cases run one after another. Seconds of a
// step are rank 0's, from the end of the step before it on the device; the first steps are left out; tokens/s = tokens
// of all replicas / median seconds. Joules are those of the boards over the same steps, each counted once. Behind them
// a few steps are observed: where rank 0's time goes, waits for other ranks under "reduce" and "gather".
#include <algorithm>
#include <barrier>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/op/communication.h"
#include "data/synthetic_source.h"
#include "dist/hierarchical_communicator.h"
#include "dist/nccl/nccl_communicator.h"
#include "io/run_file.h"
#include "meter/energy_account.h"
#include "meter/nvml.h"
#include "meter/timeline.h"
#include "model/executor.h"
#include "model/weights.h"
#include "ops/cuda/cuda_backend.h"
#include "spec/flops.h"
#include "spec/run_program.h"
#include "train/run_options.h"
#include "train/step_timeline.h"
#include "train/trainer.h"

namespace litespark {
namespace {

constexpr int64_t kWarmSteps = 4;
constexpr int kObservedSteps = 4;
constexpr double kLeastMilliseconds = 0.3;  ///< of a scope that is printed

struct Case {
  std::string text;
  int ranks = 1;
  bool records = false;
  bool is_blocking = false;
  int max_blocks = 0;
  int host_ranks = 0;  ///< of a host, with two levels
  int tensor_ranks = 1;
  int accumulation = 0;  ///< 0: the file's

  int replicas() const { return ranks / tensor_ranks; }
};

Case parse_case(const std::string& text) {
  Case parsed{.text = text};
  char* rest = nullptr;
  parsed.ranks = static_cast<int>(std::strtol(text.c_str(), &rest, 10));
  const auto take = [&](char letter) {
    if (*rest != letter) return false;
    ++rest;
    return true;
  };
  const auto take_number = [&](char letter, int& number) {
    if (take(letter)) number = static_cast<int>(std::strtol(rest, &rest, 10));
  };
  parsed.records = take('g');
  parsed.is_blocking = take('w');
  take_number('b', parsed.max_blocks);
  take_number('h', parsed.host_ranks);
  take_number('t', parsed.tensor_ranks);
  take_number('a', parsed.accumulation);
  const bool is_whole = parsed.ranks >= 1 && parsed.host_ranks >= 0 && parsed.tensor_ranks >= 1 &&
                        parsed.ranks % parsed.tensor_ranks == 0 && parsed.accumulation >= 0;
  if (!is_whole || *rest != '\0')
    throw ConfigError("case", "is none", text, "such as 1, 2, 2g, 4gb8, 8h4, 4t2 or 1a32");
  return parsed;
}

/// What all ranks of a case have in common.
struct World {
  RunConfig config;
  Case what;
  int64_t steps = 0;
  NcclId id{};
  std::barrier<> meeting;
  std::mutex mutex;
  std::map<std::string, std::string> tuning;  ///< rank 0's choices, which the others take
  std::vector<StepRecord> records;            ///< rank 0's
  Timeline timeline;                          ///< rank 0's
  Timeline waits;                             ///< what of it is waits for calls, by the scopes that they stand in
  EnergyAccount energy;
  int64_t device_bytes = 0;
  std::exception_ptr failure;

  World(const RunConfig& run, const Case& asked, int64_t num_steps)
      : config(run), what(asked), steps(num_steps), meeting(asked.ranks) {
    config.cluster.gpus = what.ranks;
    config.cluster.tp = what.tensor_ranks;
    if (what.accumulation > 0) config.train.accumulation = what.accumulation;
    if (what.ranks > 1) id = make_nccl_id();
  }

  /// Left out: fewer of long steps.
  int64_t warm_steps() const { return std::max(int64_t{1}, kWarmSteps / config.train.accumulation); }
};

/// The waits of a step, one behind the other.
SampledStep waits_of(const SampledStep& step) {
  SampledStep waits{.step = step.step, .spans = {}};
  double end = 0;
  for (TimeSpan span : step.spans) {
    if (span.op != op::CommWait<TensorId>::kName) continue;
    span.end_seconds = end + (span.end_seconds - span.begin_seconds);
    span.begin_seconds = std::exchange(end, span.end_seconds);
    waits.spans.push_back(span);
  }
  return waits;
}

class Rank {
 public:
  Rank(World& world, int rank)
      : world_(world),
        rank_(rank),
        backend_(make_cuda_backend({.ordinal = rank, .deterministic = world.config.deterministic})) {
    if (world.what.ranks == 1) return;
    communicator_ = make_nccl_communicator({.id = world.id,
                                            .rank = rank,
                                            .size = world.what.ranks,
                                            .device = rank,
                                            .compute_stream = cuda_stream_of(*backend_),
                                            .timeout_seconds = 120,
                                            .is_blocking = world.what.is_blocking,
                                            .max_blocks = world.what.max_blocks});
    if (world.what.host_ranks == 0) return;
    communicator_ =
        make_hierarchical(std::move(communicator_), {.host = rank / world.what.host_ranks,
                                                     .allocate = [this](int64_t bytes) -> std::shared_ptr<void> {
                                                       std::shared_ptr<DeviceMemory> memory = backend_->allocate(bytes);
                                                       return {memory, memory->data()};
                                                     }})
            .communicator;
  }

  void train() {
    const RunConfig& config = world_.config;
    const ModelConfig model = scratch_model_config(config);
    ProgramOptions options = training_options(config);
    options.data_rank = rank_ / options.tensor_ranks;
    options.tensor_rank = rank_ % options.tensor_ranks;
    Executor executor = bind(model, options);
    executor.set_records_communication(world_.what.records);
    initialise_weights(executor, static_cast<uint64_t>(config.seed));
    const SyntheticSource source(static_cast<uint64_t>(config.seed), model.vocab_size, options.batch);
    Batch batch;
    Trainer trainer(executor, trainer_options(config), [&](uint64_t index) -> const Batch& {
      batch.reset(options.batch);
      source.fill(index * static_cast<uint64_t>(options.data_ranks) + static_cast<uint64_t>(options.data_rank), batch);
      return batch;
    });
    const std::vector<StepRecord> records = run_steps(trainer);
    Timeline waits;
    const Timeline timeline = config.train.accumulation == 1 ? observe(executor, trainer, waits) : Timeline();
    if (rank_ != 0) return;
    world_.records = records;
    world_.timeline = timeline;
    world_.waits = waits;
    world_.device_bytes = backend_->memory_use().used_bytes.value_or(0);
  }

 private:
  /// All ranks multiply by the algorithms that rank 0 found best.
  Executor bind(const ModelConfig& model, const ProgramOptions& options) {
    const auto make = [&] {
      return Executor(make_llama_program(model, options, backend_->sizes()), *backend_, communicator_.get());
    };
    if (world_.what.ranks == 1) return make();
    if (rank_ == 0) {
      Executor executor = make();
      world_.tuning = backend_->tuning();
      world_.meeting.arrive_and_wait();
      return executor;
    }
    world_.meeting.arrive_and_wait();
    backend_->set_tuning(world_.tuning);
    return make();
  }

  std::vector<StepRecord> run_steps(Trainer& trainer) {
    std::vector<StepRecord> records;
    const auto keep = [&](const std::optional<StepRecord>& record) {
      if (record) records.push_back(*record);
    };
    const auto run = [&](int64_t steps) {
      for (int64_t step = 0; step < steps; ++step) keep(trainer.step());
      keep(trainer.finish());
    };
    run(world_.warm_steps());
    const std::unique_ptr<EnergyMeter> meter = rank_ == 0 ? meter_of_boards() : nullptr;
    run(world_.steps);
    if (meter) world_.energy.add(meter->read());
    return records;
  }

  std::unique_ptr<EnergyMeter> meter_of_boards() const {
    const auto driver = open_nvml();
    if (!driver) return nullptr;
    auto boards = visible_gpus_here(*driver).value_or(std::vector<std::string>{});
    if (boards.size() < static_cast<size_t>(world_.what.ranks)) return nullptr;
    boards.resize(static_cast<size_t>(world_.what.ranks));
    return std::make_unique<EnergyMeter>(make_gpu_sensors(driver, boards));
  }

  Timeline observe(Executor& executor, Trainer& trainer, Timeline& waits) {
    Timeline timeline;
    StepTimeline observer(backend_->make_timer());
    for (int step = 0; step < kObservedSteps; ++step) {
      executor.set_observer(&observer);
      observer.begin();
      trainer.step_and_finish();
      const SampledStep sample = observer.end(step);
      executor.set_observer(nullptr);
      if (step == 0) continue;
      timeline.add(sample);
      waits.add(waits_of(sample));
    }
    return timeline;
  }

  World& world_;
  int rank_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Communicator> communicator_;
};

void print_timeline(const char* title, const Timeline& timeline) {
  if (timeline.step_seconds() == 0) return;
  std::printf("         %s %.2f ms:", title, timeline.step_seconds() * 1e3);
  for (const ScopeSeconds& scope : timeline.scopes()) {
    if (scope.seconds * 1e3 >= kLeastMilliseconds) std::printf(" %s %.2f", scope.name.c_str(), scope.seconds * 1e3);
  }
  std::printf("\n");
}

/// Tokens a second.
double run_case(const RunConfig& config, const Case& what, int64_t steps) {
  World world(config, what, steps);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < what.ranks; ++rank) {
    threads.emplace_back([&world, rank] {
      try {
        Rank(world, rank).train();
      } catch (...) {
        const std::lock_guard lock(world.mutex);
        if (!world.failure) world.failure = std::current_exception();
        world.meeting.arrive_and_drop();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (world.failure) std::rethrow_exception(world.failure);
  std::vector<double> seconds;
  for (size_t i = static_cast<size_t>(world.warm_steps()); i < world.records.size(); ++i)
    seconds.push_back(world.records[i].seconds);
  std::sort(seconds.begin(), seconds.end());
  const double median = seconds[seconds.size() / 2];
  const double tokens =
      static_cast<double>(config.train.micro_batch * world.config.train.accumulation * what.replicas()) *
      static_cast<double>(config.data.seq_len);
  std::printf("%-8s %2d GPUs  step %8.2f ms (%.2f to %.2f)  %9.0f tokens/s  loss %.6f -> %.6f  norm %.6f  %.1f GiB\n",
              what.text.c_str(), what.ranks, median * 1e3, seconds.front() * 1e3, seconds.back() * 1e3, tokens / median,
              world.records.front().loss, world.records.back().loss, world.records.back().grad_norm,
              static_cast<double>(world.device_bytes) / 0x1p30);
  if (world.energy.is_known()) {
    std::printf("         %.1f J per 1,000 tokens, %.0f W of %zu boards\n",
                world.energy.joules / (tokens * static_cast<double>(steps)) * 1e3,
                world.energy.mean_watts().value_or(0), world.energy.devices.size());
  }
  print_timeline("observed step", world.timeline);
  if (what.ranks > 1) print_timeline("waits for calls in it", world.waits);
  std::fflush(stdout);
  return tokens / median;
}

void run(const std::string& path, int64_t steps, const std::string& cases,
         const std::vector<ConfigOverride>& settings) {
  const RunConfig config = read_run_file(path, settings);
  std::stringstream list(cases);
  double one = 0;
  for (std::string text; std::getline(list, text, ',');) {
    const Case what = parse_case(text);
    const double rate = run_case(config, what, steps);
    if (what.ranks == 1) one = rate;
    if (what.ranks > 1 && one > 0) std::printf("         %.3f times one GPU\n", rate / one);
  }
}

}  // namespace
}  // namespace litespark

int main(int argc, char** argv) {
  if (argc < 4) {
    std::cerr << "usage: bench_cuda_ranks RUN.toml STEPS CASE[,CASE...] [--section.key=value ...]\n";
    return 2;
  }
  std::vector<litespark::ConfigOverride> settings;
  for (int i = 4; i < argc; ++i) {
    const std::string text = argv[i];
    const size_t equals = text.find('=');
    settings.push_back({text.substr(2, equals - 2), text.substr(equals + 1)});
  }
  try {
    litespark::run(argv[1], std::max(2, std::atoi(argv[2])), argv[3], settings);
  } catch (const litespark::Error& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
  return 0;
}
