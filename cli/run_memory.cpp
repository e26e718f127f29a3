// SPDX-License-Identifier: Apache-2.0
#include "run_memory.h"

#include "core/json_text.h"
#include "core/text_table.h"
#include "io/file.h"
#include "meter/nvml.h"

namespace litespark::cli {
namespace {

/// Of the run's first board, by the driver's account.
std::optional<int64_t> board_used_bytes() {
  const auto driver = open_nvml();
  if (!driver) return std::nullopt;
  const auto uuids = visible_gpus_here(*driver);
  return uuids && !uuids->empty() ? gpu_used_bytes(*driver, uuids->front()) : std::nullopt;
}

}  // namespace

RunMemory::RunMemory(const RunConfig& config) : out_(config.out) {
  if (config.device.kind != DeviceKind::kCpu) start_.driver_before_bytes = board_used_bytes();
}

void RunMemory::opened(const Backend& backend) {
  backend_ = &backend;
  start_.device = backend.device();
  start_.opened = backend.memory_use();
  if (start_.driver_before_bytes) start_.driver_opened_bytes = board_used_bytes();
}

std::string RunMemory::plan(const Program& program, const std::string& headline) {
  headline_ = headline;
  num_parameters_ = program.whole_params.num_parameters;
  table_ = make_memory_table(program);
  return format_memory_table(table_);
}

void RunMemory::prepared(std::function<int64_t()> loader_bytes) {
  start_.prepared = backend_->memory_use();
  start_.loader_bytes = std::move(loader_bytes);
  watch_.emplace(start_, [backend = backend_] { return backend->memory_use(); });
  write();
}

std::vector<std::string> RunMemory::after_step(int64_t step) {
  std::vector<std::string> warnings;
  for (const MemoryGrowth& growth : watch_->after_step(step)) warnings.push_back(growth_text(growth));
  return warnings;
}

std::string RunMemory::settled() {
  if (!watch_ || !watch_->has_just_settled()) return "";
  table_.measured_beyond_plan_bytes = watch_->beyond_plan_bytes();
  write();
  std::string text = watch_->moments_text();
  if (table_.measured_beyond_plan_bytes) {
    text += "\nmemory beyond the plan: " + bytes_text(*table_.measured_beyond_plan_bytes) + " measured, " +
            bytes_text(table_.beyond_plan_bytes) + " predicted";
  }
  return text;
}

std::string RunMemory::finish() const {
  const std::string text = watch_ ? watch_->text() : "";
  return text.empty() ? "" : text + "\n";
}

void RunMemory::write() const {
  write_text_file(out_ / "memory.json", "{\"model\": {\"parameters\": " + std::to_string(num_parameters_) +
                                            ", \"headline\": " + json_string(headline_) +
                                            "}, \"memory\": " + memory_table_json(table_) + "}\n");
}

}  // namespace litespark::cli
