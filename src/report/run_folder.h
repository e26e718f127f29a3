// SPDX-License-Identifier: Apache-2.0
// What a run left in its folder, read with checks: anyone may have written those files. What was not measured is
// absent, never 0.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "report/prediction.h"

namespace litespark::report {

/// A step's line of metrics.jsonl.
struct StepLine {
  int64_t step = 0;
  std::optional<double> tokens;  ///< of the run up to here
  std::optional<double> loss;
  std::optional<double> grad_norm;
  std::optional<double> lr;
  std::optional<double> tokens_per_second;
  std::optional<double> mfu;  ///< 0 to 1
  std::optional<double> watts;
  std::optional<double> joules;
  std::optional<double> co2_grams;
  std::optional<double> data_wait_seconds;
  bool skipped = false;
};

struct EvalLine {
  int64_t step = 0;
  std::optional<double> loss;
};

struct WarningLine {
  int64_t step = 0;
  std::string text;
};

/// A line of energy.jsonl: one device during one interval.
struct EnergyLine {
  std::string device;
  std::string method;  ///< "counter", "estimated", ...
  std::optional<int64_t> step;
  std::optional<double> seconds;
  std::optional<double> joules;
  std::optional<double> watts;
};

struct OwnerBytes {
  std::string owner;
  double run_bytes = 0.0;   ///< for the whole run
  double peak_bytes = 0.0;  ///< of the arena, at its fullest op
};

/// memory.json: the object of `litespark plan --json`.
struct MemoryFacts {
  std::vector<OwnerBytes> owners;
  double total_bytes = 0.0;
  std::string peak_name;  ///< the stretch whose arena is fullest: "train_first backward"
  bool is_exact = false;
  std::optional<double> beyond_plan_bytes;  ///< driver, libraries, the rest of the process
  bool is_beyond_plan_measured = false;     ///< else predicted
};

struct ScopeTime {
  std::string name;
  double seconds = 0.0;
};

/// timeline.json.
struct TimelineFacts {
  int64_t num_sampled_steps = 0;
  std::vector<ScopeTime> scopes;     ///< of one step, mean over the samples, longest first
  std::vector<ScopeTime> run;        ///< of the whole run: steps, evaluations, ...; empty when not recorded
  std::optional<double> cost_share;  ///< of the steps' time, that observing took
};

struct Sample {
  std::optional<int64_t> step;
  std::string prompt;
  std::string text;
};

struct RunFolder {
  std::string name;      ///< of the folder
  std::string run_toml;  ///< the effective configuration
  std::string model;     ///< one line on the model; may be empty
  std::optional<double> num_parameters;
  std::vector<StepLine> steps;
  std::vector<EvalLine> evals;
  std::vector<WarningLine> warnings;
  std::vector<EnergyLine> energy;
  int64_t num_broken_energy_lines = 0;  ///< left out
  std::optional<MemoryFacts> memory;
  std::optional<TimelineFacts> timeline;
  std::optional<Prediction> prediction;
  std::vector<Sample> samples;
  std::vector<int64_t> checkpoints;  ///< steps of the complete ones, ascending
};

/// Reads run.toml, metrics.jsonl, energy.jsonl, memory.json, forecast.json, timeline.json, samples.jsonl and the names
/// of the checkpoints; all but run.toml may be absent, and a last line without its end is a write that was cut off;
/// energy.jsonl only grows, so torn lines in its middle are left out and counted. Throws DataError when `folder` is no
/// run folder, and naming file and line for what is malformed; IoError.
RunFolder read_run_folder(const std::filesystem::path& folder);

}  // namespace litespark::report
