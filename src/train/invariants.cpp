// SPDX-License-Identifier: Apache-2.0
#include "train/invariants.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/rng.h"
#include "model/weights.h"
#include "train/checkpoint.h"

namespace litespark {
namespace {

constexpr int64_t kSteps = 4;
constexpr int64_t kRows = 4;
constexpr int64_t kLength = 32;
constexpr uint64_t kSeed = 17;
/// Order of f32 sums alone; losses and weights move by less than this, a wrong mean or a leak by far more.
constexpr double kSumOrderLimit = 1e-3;
constexpr double kPackingLimit = 1e-5;

ModelConfig small_model() {
  return {.vocab_size = 128,
          .hidden_size = 64,
          .intermediate_size = 96,
          .num_hidden_layers = 2,
          .num_attention_heads = 4,
          .num_key_value_heads = 2,
          .head_dim = 16,
          .max_position_embeddings = kRows * kLength};
}

/// `rows` documents of random tokens from row `first` of one endless list.
Batch rows_of(const BatchShape& shape, int64_t first, int64_t rows, int64_t length) {
  const RandomStream random(kSeed, 1);
  Batch batch;
  batch.reset(shape);
  for (int64_t row = first; row < first + rows; ++row) {
    std::vector<int32_t> ids;
    for (int64_t t = 0; t < length; ++t) {
      ids.push_back(static_cast<int32_t>(random.below(static_cast<uint64_t>(row * kLength + t), 128)));
    }
    batch.append_shifted(ids, op::kIgnoredLabel);
  }
  return batch;
}

/// The small model with its trainer; a step takes kRows rows in `accumulation` parts.
class SmallModel {
 public:
  explicit SmallModel(Backend& backend, int64_t accumulation = 1)
      : executor_(make_llama_program(small_model(), options(accumulation), backend.sizes()), backend),
        trainer_(executor_,
                 {.schedule = {.decay = Decay::kConstant, .peak = 1e-3, .total_steps = kSteps},
                  .accumulation = accumulation},
                 [this, accumulation](uint64_t index) -> const Batch& {
                   const int64_t rows = kRows / accumulation;
                   batch_ =
                       rows_of(executor_.program().options.batch, static_cast<int64_t>(index) * rows, rows, kLength);
                   return batch_;
                 }) {
    initialise_weights(executor_, kSeed);
  }

  Executor& executor() { return executor_; }
  Trainer& trainer() { return trainer_; }

  void train_to(int64_t step) {
    while (trainer_.steps_done() < step) losses_.push_back(trainer_.step_and_finish().loss);
  }
  SmallTraining result() const { return {losses_, weights()}; }
  std::vector<float> weights() const {
    std::vector<float> all;
    for (size_t i = 0; i < executor_.program().params.params.size(); ++i) {
      const std::vector<float> values = get_parameter(executor_, static_cast<int64_t>(i));
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  }
  double loss_sum(const Batch& batch) {
    executor_.write_state({});
    upload_batch(executor_, batch);
    executor_.run(Phase::kEval);
    return executor_.read_state().loss_sum;
  }

 private:
  static ProgramOptions options(int64_t accumulation) {
    const int64_t rows = kRows / accumulation;
    return {.batch = {.num_tokens = rows * kLength, .max_documents = rows, .max_length = kLength},
            .accumulates = accumulation > 1};
  }

  Executor executor_;
  Batch batch_;
  Trainer trainer_;
  std::vector<double> losses_;
};

VerifyCheck within(std::string name, double error, double limit) {
  return {.name = std::move(name), .error = error, .limit = limit, .pass = error <= limit};
}

VerifyCheck same_bits(std::string name, const SmallTraining& a, const SmallTraining& b) {
  const double error = is_same_training(a, b) ? 0 : std::max(training_difference(a, b), 1e-300);
  return within(std::move(name), error, 0);
}

VerifyCheck check_packing(Backend& backend) {
  SmallModel model(backend);
  const BatchShape shape = model.executor().program().options.batch;
  double alone = 0;
  for (int64_t row = 0; row < kRows; ++row) alone += model.loss_sum(rows_of(shape, row, 1, kLength - row));
  Batch packed;
  packed.reset(shape);
  for (int64_t row = 0; row < kRows; ++row) {
    const Batch one = rows_of(shape, row, 1, kLength - row);
    packed.append_shifted(std::span(one.ids).first(static_cast<size_t>(kLength - row)), op::kIgnoredLabel);
  }
  return within("packing", std::abs(model.loss_sum(packed) - alone) / alone, kPackingLimit);
}

}  // namespace

SmallTraining train_small_model(Backend& backend) {
  SmallModel model(backend);
  model.train_to(kSteps);
  return model.result();
}

double training_difference(const SmallTraining& a, const SmallTraining& b) {
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  if (a.losses.size() != b.losses.size() || a.weights.size() != b.weights.size()) return kInfinite;
  double worst = 0;
  for (size_t i = 0; i < a.losses.size(); ++i) {
    worst = std::max(worst, std::abs(a.losses[i] - b.losses[i]) / std::abs(b.losses[i]));
    if (!std::isfinite(a.losses[i]) || !std::isfinite(b.losses[i])) return kInfinite;
  }
  double difference = 0;
  double norm = 0;
  for (size_t i = 0; i < a.weights.size(); ++i) {
    const double error = double{a.weights[i]} - double{b.weights[i]};
    difference += error * error;
    norm += double{b.weights[i]} * double{b.weights[i]};
  }
  const double distance = std::sqrt(difference / norm);
  return std::isfinite(distance) ? std::max(worst, distance) : kInfinite;
}

bool is_same_training(const SmallTraining& a, const SmallTraining& b) {
  return a.losses == b.losses && a.weights.size() == b.weights.size() &&
         std::memcmp(a.weights.data(), b.weights.data(), a.weights.size() * sizeof(float)) == 0;
}

std::vector<VerifyCheck> check_invariants(Backend& backend, const std::filesystem::path& scratch) {
  const ModelConfig config = small_model();
  const ParamTable params = make_param_table(config);
  const CheckpointContext context{.config = config, .params = params, .identity = {{"seed", std::to_string(kSeed)}}};
  const std::filesystem::path folder = scratch / "step-2";

  SmallModel whole(backend);
  whole.train_to(2);
  const std::vector<float> weights_at_2 = whole.weights();
  TrainingSnapshot snapshot;
  take_snapshot(whole.executor(), whole.trainer(), {}, snapshot);
  write_checkpoint(folder, snapshot, context);
  whole.train_to(kSteps);

  SmallModel resumed(backend);
  resumed.trainer().restore(read_checkpoint(folder, context, resumed.executor()).progress);
  resumed.train_to(kSteps);
  SmallTraining second_half = whole.result();
  second_half.losses.erase(second_half.losses.begin(), second_half.losses.begin() + 2);

  SmallModel exported(backend);
  load_weights(exported.executor(), folder);

  SmallModel accumulated(backend, 2);
  accumulated.train_to(kSteps);
  return {same_bits("resume", resumed.result(), second_half),
          same_bits("export", {{}, exported.weights()}, {{}, weights_at_2}),
          within("accumulation", training_difference(accumulated.result(), whole.result()), kSumOrderLimit),
          check_packing(backend)};
}

}  // namespace litespark
