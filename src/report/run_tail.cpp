// SPDX-License-Identifier: Apache-2.0
#include "report/run_tail.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <span>

#include "core/error.h"
#include "io/file.h"
#include "io/json_file.h"
#include "io/run_file.h"
#include "report/run_folder_lines.h"

namespace litespark::report {
namespace {

namespace fs = std::filesystem;

/// The whole lines among the file's last bytes.
std::string last_lines(const fs::path& path, int64_t tail_bytes) {
  if (!is_present(path)) return {};
  const InputFile file(path);
  const int64_t size = std::min(file.size(), tail_bytes);
  std::string text(static_cast<size_t>(size), '\0');
  file.read_at(file.size() - size, std::as_writable_bytes(std::span(text)));
  text.resize(text.find_last_of('\n') + 1);
  if (size < file.size()) text.erase(0, text.find('\n') + 1);
  return text;
}

void each_sound_line(const fs::path& path, int64_t tail_bytes, const std::function<void(const JsonObject&)>& visit) {
  const std::string text = last_lines(path, tail_bytes);
  for (size_t start = 0; start < text.size();) {
    const size_t end = text.find('\n', start);
    try {
      const nlohmann::json line = parse_json(std::string_view(text).substr(start, end - start), path.string());
      visit(JsonObject(line, path.string()));
    } catch (const DataError&) {
      // Somebody else's line, or one that a crash tore: the next one tells more than an error would.
    }
    start = end + 1;
  }
}

/// A run file of another version still has steps to show.
std::optional<int64_t> total_steps_of(const fs::path& run_toml) {
  try {
    return read_run_file(run_toml).train.steps;
  } catch (const ConfigError&) {
    return std::nullopt;
  }
}

std::optional<double> age_seconds(const fs::path& path) {
  std::error_code error;
  const fs::file_time_type written = fs::last_write_time(path, error);
  if (error) return std::nullopt;
  const std::chrono::duration<double> age = fs::file_time_type::clock::now() - written;
  return std::max(0.0, age.count());
}

void read_steps(const fs::path& path, int64_t tail_bytes, RunTail& tail) {
  double seconds = 0;
  int64_t num_timed = 0;
  each_sound_line(path, tail_bytes, [&](const JsonObject& line) {
    const MetricsLine kind = metrics_line_kind(line);
    if (kind == MetricsLine::kEval) tail.last_eval = eval_line_of(line);
    if (kind == MetricsLine::kWarning) tail.last_warning = warning_line_of(line);
    if (kind != MetricsLine::kStep) return;
    const StepLine step = step_line_of(line);
    const bool has_rate = step.tokens && step.tokens_per_second && *step.tokens_per_second > 0;
    if (has_rate && tail.last_step && tail.last_step->tokens && step.step == tail.last_step->step + 1) {
      seconds += (*step.tokens - *tail.last_step->tokens) / *step.tokens_per_second;
      ++num_timed;
    }
    tail.last_step = step;
  });
  if (num_timed > 0) tail.step_seconds = seconds / static_cast<double>(num_timed);
}

}  // namespace

std::optional<double> RunTail::seconds_left() const {
  if (!total_steps || !last_step || !step_seconds) return std::nullopt;
  return *step_seconds * static_cast<double>(std::max<int64_t>(0, *total_steps - last_step->step));
}

std::optional<double> RunTail::data_wait_share() const {
  if (!last_step || !last_step->data_wait_seconds || !step_seconds || *step_seconds <= 0) return std::nullopt;
  return std::min(1.0, *last_step->data_wait_seconds / *step_seconds);
}

RunTail read_run_tail(const fs::path& folder, int64_t tail_bytes) {
  if (!is_present(folder / "run.toml")) {
    throw DataError(folder.string(), "is not a run folder", "no run.toml in it", "the folder of a litespark train");
  }
  RunTail tail{.total_steps = total_steps_of(folder / "run.toml")};
  read_steps(folder / "metrics.jsonl", tail_bytes, tail);
  tail.seconds_since_update = age_seconds(folder / "metrics.jsonl");
  each_sound_line(folder / "energy.jsonl", tail_bytes, [&](const JsonObject& line) {
    EnergyLine energy = energy_line_of(line);
    const auto known = std::find_if(tail.energy.begin(), tail.energy.end(),
                                    [&](const EnergyLine& other) { return other.device == energy.device; });
    if (known == tail.energy.end()) {
      tail.energy.push_back(std::move(energy));
    } else {
      *known = std::move(energy);
    }
  });
  return tail;
}

}  // namespace litespark::report
