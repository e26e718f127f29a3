// SPDX-License-Identifier: Apache-2.0
#include "train/rank_runs.h"

#include <cmath>

#include "dist/local_world.h"
#include "model/gather.h"
#include "train/snapshot.h"

namespace litespark {
namespace {

/// Only the parameters: what lies between them in flat order belongs to nobody.
std::vector<float> without_padding(const Program& program, const std::vector<float>& flat) {
  std::vector<float> values;
  for (const ParamSpec& param : program.whole_params.params) {
    const auto first = flat.begin() + static_cast<std::ptrdiff_t>(param.flat_offset);
    values.insert(values.end(), first, first + static_cast<std::ptrdiff_t>(param.shape.num_elements()));
  }
  return values;
}

/// The backend's sizes, but for packed copies.
class UnpackedSizes final : public BackendSizes {
 public:
  UnpackedSizes(const BackendSizes& sizes, bool joins) : sizes_(sizes), joins_(joins) {}
  bool exact() const override { return sizes_.exact(); }
  bool packs_weights(DType) const override { return false; }
  int64_t packed_bytes(const LinearShape&, op::PackForm) const override { return 0; }
  bool joins_swiglu(DType, int64_t, int64_t) const override { return joins_; }
  int64_t matmul_forward_scratch_bytes(const LinearShape& shape) const override {
    return sizes_.matmul_forward_scratch_bytes(shape);
  }
  int64_t matmul_backward_input_scratch_bytes(const LinearShape& shape) const override {
    return sizes_.matmul_backward_input_scratch_bytes(shape);
  }
  int64_t matmul_backward_weight_scratch_bytes(const LinearShape& shape) const override {
    return sizes_.matmul_backward_weight_scratch_bytes(shape);
  }
  int64_t attention_forward_scratch_bytes(const op::AttentionShape& shape, int64_t num_tokens,
                                          DType compute) const override {
    return sizes_.attention_forward_scratch_bytes(shape, num_tokens, compute);
  }
  int64_t attention_backward_scratch_bytes(const op::AttentionShape& shape, int64_t num_tokens,
                                           DType compute) const override {
    return sizes_.attention_backward_scratch_bytes(shape, num_tokens, compute);
  }
  int64_t attention_part_forward_scratch_bytes(const op::AttentionShape& shape, int64_t num_rows,
                                               DType compute) const override {
    return sizes_.attention_part_forward_scratch_bytes(shape, num_rows, compute);
  }
  int64_t attention_part_backward_scratch_bytes(const op::AttentionShape& shape, int64_t num_rows,
                                                DType compute) const override {
    return sizes_.attention_part_backward_scratch_bytes(shape, num_rows, compute);
  }

 private:
  const BackendSizes& sizes_;
  bool joins_;
};

/// One step's gradients, a vector a parameter.
using Gradients = std::vector<std::vector<float>>;

Gradients read_gradients(const Executor& executor) {
  Gradients all;
  for (size_t p = 0; p < executor.program().params.params.size(); ++p) {
    all.push_back(get_gradient(executor, static_cast<int64_t>(p)));
  }
  return all;
}

/// In f32, rounded to the gradient's own format once all are added.
void add_or_set(Gradients& sum, const Gradients& other) {
  if (sum.empty()) {
    sum = other;
    return;
  }
  for (size_t p = 0; p < sum.size(); ++p) {
    for (size_t i = 0; i < sum[p].size(); ++i) sum[p][i] += other[p][i];
  }
}

enum class SumOrder : uint8_t { kMicroBatchesFirst, kRanksFirst };

void step_in_rank_order(TinyRun& run, int ranks, int64_t accumulation, int64_t step, SumOrder order,
                        std::vector<StepRecord>& records) {
  Executor& executor = run.executor;
  const StepState inputs{.learning_rate = static_cast<float>(run.trainer.options().schedule.at(step)),
                         .clip_norm = static_cast<float>(run.trainer.options().clip_norm),
                         .rng_counter = static_cast<uint64_t>(step)};
  StepState sums = executor.read_state();
  sums.learning_rate = inputs.learning_rate;
  sums.clip_norm = inputs.clip_norm;
  sums.rng_counter = inputs.rng_counter;
  sums.loss_sum = sums.gradient_square_sum = 0;
  sums.supervised_tokens = 0;
  // A sum of micro-batches for each rank, or for each micro-batch a sum over ranks.
  const bool by_micro_batch = order == SumOrder::kRanksFirst;
  const int64_t rounds = by_micro_batch ? accumulation : 1;
  Gradients total;
  for (int64_t round = 0; round < rounds; ++round) {
    Gradients of_round;
    for (int rank = 0; rank < ranks; ++rank) {
      executor.begin_step(inputs);
      for (int64_t micro = by_micro_batch ? round : 0; micro < (by_micro_batch ? round + 1 : accumulation); ++micro) {
        const auto index = static_cast<size_t>((step * accumulation + micro) * ranks + rank);
        upload_batch(executor, run.batches[index % run.batches.size()]);
        executor.run(by_micro_batch || micro == 0 ? Phase::kTrainFirst : Phase::kTrainNext);
      }
      const StepState state = executor.read_state();
      sums.loss_sum += state.loss_sum;
      sums.supervised_tokens += state.supervised_tokens;
      add_or_set(of_round, read_gradients(executor));
    }
    add_or_set(total, of_round);
  }
  for (size_t p = 0; p < total.size(); ++p) {
    write_floats(executor, executor.program().param_tensors[p].gradient, total[p]);
  }
  executor.write_state(sums);
  executor.run(Phase::kOptimizer);
  executor.run(Phase::kPack);
  const StepState after = executor.read_state();
  records.push_back({.step = step + 1,
                     .loss = after.loss_sum / static_cast<double>(after.supervised_tokens),
                     .grad_norm = static_cast<double>(after.gradient_norm),
                     .supervised_tokens = after.supervised_tokens,
                     .skipped = after.skipped != 0});
}

Outcome state_of_one(TinyRun& run) {
  TrainingSnapshot snapshot;
  take_snapshot(run.executor, run.trainer, {}, snapshot);
  const Program& program = run.executor.program();
  return {.records = {},
          .weights = without_padding(program, snapshot.master),
          .first_moment = without_padding(program, snapshot.first_moment),
          .second_moment = without_padding(program, snapshot.second_moment)};
}

}  // namespace

std::vector<Batch> twelve_batches() {
  const BatchShape shape = tiny_program_options().batch;
  std::vector<Batch> batches;
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    const auto length = static_cast<int64_t>(seed);
    batches.push_back(random_batch(shape, {20 - length, 7 + length, 32}, 96, seed));
  }
  return batches;
}

void on_ranks(int ranks, const RankedRun& run, const std::function<void(TinyRun&)>& body) {
  const auto make = [&](Communicator* communicator) {
    ProgramOptions options = run.options;
    options.data_ranks = ranks / (options.tensor_ranks * options.stages);
    options.micro_batches = run.trainer.accumulation;
    options.take_place(communicator == nullptr ? 0 : communicator->rank());
    auto backend = make_cpu_backend({.threads = 1});
    const UnpackedSizes unpacked(backend->sizes(), run.joins_swiglu);
    const BackendSizes& sizes = run.packs ? backend->sizes() : unpacked;
    return std::make_unique<TinyRun>(make_llama_program(run.config, options, sizes), run.batches, run.trainer,
                                     std::move(backend), communicator);
  };
  if (ranks == 1 && !run.options.meets_itself) return body(*make(nullptr));
  run_local_ranks(ranks, {}, [&](Communicator& communicator) { body(*make(&communicator)); });
}

Outcome gathered_state(TinyRun& run) {
  if (run.executor.communicator() == nullptr) return state_of_one(run);
  const bool keeps = run.executor.communicator()->rank() == 0;
  TrainingSnapshot snapshot;
  take_gathered_snapshot(run.executor, run.trainer, {}, keeps, snapshot);
  if (!keeps) return {};
  const Program& program = run.executor.program();
  return {.records = {},
          .weights = without_padding(program, snapshot.master),
          .first_moment = without_padding(program, snapshot.first_moment),
          .second_moment = without_padding(program, snapshot.second_moment)};
}

Outcome train_ranks(int ranks, const RankedRun& run, int steps) {
  Outcome outcome;
  on_ranks(ranks, run, [&](TinyRun& mine) {
    std::vector<StepRecord> records;
    for (int step = 0; step < steps; ++step) records.push_back(mine.trainer.step_and_finish());
    Outcome state = gathered_state(mine);
    if (mine.executor.program().options.world_rank() != 0) return;
    outcome = std::move(state);
    outcome.records = records;
  });
  return outcome;
}

Outcome train_in_rank_order(int ranks, RankedRun run, int steps) {
  Outcome outcome;
  const int64_t accumulation = run.trainer.accumulation;
  const SumOrder sums = run.options.shards_gradients ? SumOrder::kRanksFirst : SumOrder::kMicroBatchesFirst;
  on_ranks(1, run, [&](TinyRun& one) {
    std::vector<StepRecord> records;
    for (int step = 0; step < steps; ++step) step_in_rank_order(one, ranks, accumulation, step, sums, records);
    outcome = state_of_one(one);
    outcome.records = records;
  });
  return outcome;
}

double relative_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double difference = 0;
  double norm = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference += (double{a[i]} - double{b[i]}) * (double{a[i]} - double{b[i]});
    norm += double{b[i]} * double{b[i]};
  }
  return std::sqrt(difference / norm);
}

}  // namespace litespark
