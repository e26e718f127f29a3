// SPDX-License-Identifier: Apache-2.0
// What `litespark plan` says beside the memory table: the forecast of a run on given hardware, the search for a better
// layout, one step as a trace.
#pragma once

#include <optional>
#include <string>

#include "core/fields.h"
#include "ops/backend.h"
#include "plan/layout_search.h"
#include "plan/run_forecast.h"

namespace litespark::cli {

/// Options of the command.
struct ForecastRequest {
  std::string hardware;  ///< a name or a TOML file; empty: cluster.hardware, or the CPU for a CPU run
  bool search = false;
  SearchGoal goal = SearchGoal::kFastest;
  bool csv = false;
  std::string page;   ///< HTML file to write
  std::string trace;  ///< file to write one step to
  double spread = 0;  ///< of the devices' speed, for the trace

  void visit(Fields& fields);
};

/// By name, or from a file that ends in .toml (configs/hardware has an example). Throws ConfigError.
Hardware hardware_of(const std::string& name_or_file);

/// A run that leaves its device open is planned for that of the hardware which the user names, as if device.kind said
/// so: what the run will be there is not what it would be here. Throws ConfigError for what such a device excludes.
void plan_for_named_device(const ForecastRequest& request, RunConfig& config);

/// Throws ConfigError for a run that is to compute on 8-bit floats, in matmuls or in attention, on a device that has no
/// such kernels: the tape alone does not know for which hardware it is. A warning where the hardware does not state its
/// compute capability.
void check_fp8(const ForecastRequest& request, const RunConfig& config, const ModelConfig& model);

RunForecast make_forecast(const ForecastRequest& request, const RunConfig& config, const ModelConfig& model,
                          const Program& program);

/// The forecast of a run on the device that it is about to train on. Throws ConfigError for a GPU that is not known; of
/// CPUs there is one, the planner's.
RunForecast forecast_here(const RunConfig& config, const ModelConfig& model, const Program& program,
                          const Backend& backend);

/// Layouts of the run over its devices.
SearchQuestion search_question(const ForecastRequest& request, const RunForecast& forecast);

/// Writes what the request names: the page, the trace of one step. Throws IoError.
void write_files(const ForecastRequest& request, const RunForecast& forecast, const RunConfig& config);

}  // namespace litespark::cli
