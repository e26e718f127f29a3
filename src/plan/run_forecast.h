// SPDX-License-Identifier: Apache-2.0
// The forecast of a run file on given hardware: time of a step, memory of a device, energy, carbon and money of the
// whole run. Time and memory of data and tensor parallelism go by the run's own tapes; with pipeline stages memory
// does, and time goes by closed forms, as all of other layouts.
#pragma once

#include <string>
#include <vector>

#include "plan/energy_cost.h"
#include "plan/failures.h"
#include "plan/layout_memory.h"
#include "spec/program.h"
#include "spec/run_config.h"

namespace litespark {

struct ForecastQuestion {
  const RunConfig& config;
  const ModelConfig& model;
  const Program& program;  ///< of planned_options(config), of the fullest stage
  Hardware hardware;
  /// Grid, overhead, price; hours and devices are filled in.
  EnergyQuestion energy;
};

struct RunForecast {
  Workload workload;
  Hardware hardware;
  StepSeconds step;
  bool goes_by_tape = false;  ///< the time
  bool has_tapes = false;     ///< training runs this layout; memory goes by its tapes
  double memory_bytes = 0;    ///< of the fullest device
  bool memory_is_exact = false;
  double hours = 0;  ///< of the whole run's steps
  /// Saves, restarts and steps done again, over the steps' time: in `cost`. Absent where failures come faster than work
  /// is redone, so that the run would not end; `cost` is without them then.
  std::optional<double> overhead_share;
  std::optional<FailureReplay> played;  ///< the run once, with failures at times drawn from its seed
  double tokens = 0;
  EnergyCost cost;
  EnergyQuestion energy;
  bool fits() const { return memory_bytes <= hardware.memory_bytes(); }
  double joules_per_token() const { return cost.device_kwh * 3.6e6 / tokens; }
};

/// What a run file asks for, as a workload. Throws ConfigError for a layout that cannot be.
Workload workload_of_run(const RunConfig& config, const ModelConfig& model);

/// Whether training runs this layout, by tapes: data, tensor and pipeline parallelism.
bool has_tapes(const ClusterSection& cluster);

/// training_options; where the layout has no tapes (has_tapes), those of its data-parallel ranks with all weights on
/// each.
ProgramOptions planned_options(const RunConfig& config);

RunForecast forecast_run(const ForecastQuestion& question);

/// Of the run's devices, with what a save of its model takes.
FailureModel failure_model(const RunConfig& config, const RunForecast& forecast);

/// Tokens a second over devices.
struct ScalingPoint {
  int64_t gpus = 0;
  double tokens_per_second = 0;
};

/// The same run with more data-parallel ranks and as many more sequences a step: doublings up to `most_gpus`. The first
/// point is the forecast; the closed form gives the shape.
std::vector<ScalingPoint> weak_scaling(const RunForecast& forecast, int64_t most_gpus);

}  // namespace litespark
