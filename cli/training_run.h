// SPDX-License-Identifier: Apache-2.0
// One run on one of its ranks, from its inputs to its end: the loop's hooks, what is written and what is said.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/loader.h"
#include "data/ranked_source.h"
#include "progress.h"
#include "run_memory.h"
#include "run_sensors.h"
#include "text_commands.h"
#include "train/checkpoint_store.h"
#include "train/metrics_log.h"
#include "train/rank_pace.h"
#include "train/run_loop.h"
#include "train/run_manifest.h"
#include "train/run_timeline.h"

namespace litespark::cli {

/// Everything of one run that lives as long as it, on one of its ranks. The first rank, or the only one, writes and
/// speaks; the others only train.
class TrainingRun {
 public:
  struct Start {
    CheckpointStore store;
    std::optional<std::filesystem::path> checkpoint;  ///< to continue from
    std::vector<std::string> command;                 ///< as typed
  };

  /// Opens data, makes or reads the weights; ConfigError when another rank sees other inputs. `config`, `backend`,
  /// `memory` and `ranks` (nullptr: there is one) outlive it.
  TrainingRun(const RunConfig& config, Start start, Program program, Backend& backend, RunMemory& memory,
              Communicator* ranks);

  /// What the first rank does.
  RunEnd run();
  /// What every other rank does.
  RunEnd run_silently();

 private:
  bool is_first() const { return executor_.program().options.world_rank() == 0; }
  TrainerOptions options_of_rank();
  void clean_store();
  void watch_memory(MetricsLog& metrics, Progress& progress);
  void sample(int64_t step, Progress& progress, RunTimeline& timeline);
  RunStart this_start() const;
  /// The loader starts where the trainer stands, which a resume decides.
  const Batch& next(uint64_t index);

  const RunConfig& config_;
  std::filesystem::path out_;
  RunMemory& memory_;
  std::unique_ptr<BatchSource> source_;
  RankedSource share_;
  std::unique_ptr<BatchSource> eval_source_;
  Executor executor_;
  CheckpointStore store_;
  std::vector<std::string> command_;
  CheckpointContext context_;
  std::optional<Loader> loader_;
  std::optional<RankEnergy> energy_;  ///< of every rank but the first, which has a RunMeter
  Trainer trainer_;
  TakeSample take_sample_;
  SlowRankWatch slow_ranks_;
  std::optional<SampleLog> samples_;
  RunTotals totals_;
};

}  // namespace litespark::cli
