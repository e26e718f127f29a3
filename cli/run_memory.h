// SPDX-License-Identifier: Apache-2.0
// The memory of a training run from before the device is opened to its end: the planned table, memory.json, what driver
// and libraries took beside the plan, and a watch on who grows.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "plan/memory_table.h"
#include "spec/run_config.h"
#include "train/memory_watch.h"

namespace litespark::cli {

class RunMemory {
 public:
  /// Before the backend is made: reads what the board holds already.
  explicit RunMemory(const RunConfig& config);

  /// With the backend made and nothing allocated. `backend` outlives this.
  void opened(const Backend& backend);
  /// The planned table as text. `headline` describes the model in one line.
  std::string plan(const Program& program, const std::string& headline);
  /// With the plan allocated and every op prepared; writes memory.json. `loader_bytes`: of the loader's batches.
  void prepared(std::function<int64_t()> loader_bytes);

  /// Warnings that name owners which go on growing. `step` counts over the whole run.
  std::vector<std::string> after_step(int64_t step);
  /// Lines to show once, after the step that reached the steady state; memory.json then holds the measurement. "" at
  /// any other time.
  std::string settled();
  /// A line for the end of the run; "" when it ended before the steady state.
  std::string finish() const;

 private:
  void write() const;

  std::filesystem::path out_;
  const Backend* backend_ = nullptr;
  MemoryWatch::Start start_;
  std::string headline_;
  int64_t num_parameters_ = 0;
  MemoryTable table_;
  std::optional<MemoryWatch> watch_;
};

}  // namespace litespark::cli
