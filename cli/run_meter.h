// SPDX-License-Identifier: Apache-2.0
// The meter of a training run: picks the sensors of its devices, turns steps into watts, MFU and grams, keeps
// energy.jsonl and emissions.csv, and sums up at the end.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "meter/carbon.h"
#include "meter/energy_account.h"
#include "meter/peak.h"
#include "meter/told_energy.h"
#include "model/executor.h"
#include "run_sensors.h"
#include "spec/run_config.h"
#include "train/energy_log.h"
#include "train/metrics_log.h"

namespace litespark::cli {

class RunMeter {
 public:
  /// `totals`: of the run so far. Measures the matmul peak when the settings and the device leave it open,
  /// which overwrites the executor's arena.
  RunMeter(const RunConfig& config, Executor& executor, const RunTotals& totals);

  /// What is measured how, and the formula of MFU, as lines.
  std::string headline() const;
  /// Ends the interval of a step.
  StepMeasurements measure(const StepRecord& record, int64_t step_tokens);
  /// Writes the energy's share of the totals.
  void update(RunTotals& totals) const;
  /// Ends the run: the last records, and the summary as lines.
  std::string finish(int64_t steps_done, int64_t tokens_done);

 private:
  const EnergyInterval& read();
  void flush(int64_t step);
  void write_emissions();

  const MeterSection& settings_;
  std::filesystem::path out_;
  int64_t log_every_;
  GridIntensity grid_;
  std::string device_name_;
  bool is_gpu_;
  int64_t num_devices_;
  int num_cores_ = 0;
  double memory_gib_ = 0;
  double flops_per_token_;
  std::string flops_text_;
  std::optional<PeakRate> peak_;
  EnergyLog log_;
  AppendFile emissions_;
  EnergyAccount total_;    ///< of the run, restarts included
  EnergyAccount process_;  ///< since this start
  EnergyAccount stretch_;  ///< since the last record of energy.jsonl
  PowerWindow power_;
  Sensors sensors_;     ///< on their way into meter_
  ToldEnergy* others_;  ///< in meter_: the other ranks' devices; nullptr with one rank
  EnergyMeter meter_;
};

}  // namespace litespark::cli
