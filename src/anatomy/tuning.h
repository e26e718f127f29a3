// SPDX-License-Identifier: Apache-2.0
// Chapter `tuning` (claim:L13): short trainings of a small model that differ in one setting each: warm-up, clipping,
// tokens a step. They show in which direction the advice points here, not what a large model would gain.
#pragma once

#include "anatomy/chapter.h"
#include "anatomy/prepared_model.h"
#include "data/batch_source.h"

namespace litespark::anatomy {

/// Sequences that can be learned: each token is drawn from four that follow the one before it, with unequal chances.
class PatternSource final : public BatchSource {
 public:
  PatternSource(uint64_t seed, int64_t vocab, const BatchShape& shape) : seed_(seed), vocab_(vocab), shape_(shape) {}
  void fill(uint64_t index, Batch& batch) const override;
  uint64_t batches_per_epoch() const override { return 0; }
  std::string fingerprint() const override { return "pattern:" + std::to_string(seed_); }
  /// Entropy of a token given the one before it, in nats: the loss that no model can go below.
  static double least_loss();

 private:
  uint64_t seed_;
  int64_t vocab_;
  BatchShape shape_;
};

struct TuningSizes {
  ModelSizes model;
  int64_t steps = 100;  ///< of the base run; others take the same tokens
  double learning_rate = 3e-3;
};

/// One training.
struct TuningRun {
  std::string name;
  int64_t warmup = 0;
  double clip = 1.0;
  int64_t accumulation = 1;
  double loss = 0;           ///< on held-out sequences, at the end
  double half_way_step = 0;  ///< share of the tokens after which the loss first had half of its final fall; 1: never
  double clipped_share = 0;  ///< of the steps
};
/// Trains for steps / accumulation steps and fills the last three fields in.
TuningRun train_run(Backend& backend, const MeasureOptions& options, const TuningSizes& sizes, TuningRun run);

Chapter tuning_chapter(Backend& backend, const MeasureOptions& options, const TuningSizes& sizes);

}  // namespace litespark::anatomy
