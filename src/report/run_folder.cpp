// SPDX-License-Identifier: Apache-2.0
#include "report/run_folder.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "core/error.h"
#include "io/file.h"
#include "io/json_file.h"
#include "report/json_access.h"
#include "report/run_folder_lines.h"

namespace litespark::report {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kLargestConfigBytes = int64_t{1} << 20;

void add_step(const JsonObject& line, RunFolder& run) {
  const StepLine step = step_line_of(line);
  if (!run.steps.empty() && step.step <= run.steps.back().step) {
    throw DataError(line.where(), "steps must ascend", step.step, "more than " + std::to_string(run.steps.back().step));
  }
  run.steps.push_back(step);
}

void read_metrics(const fs::path& path, RunFolder& run) {
  each_json_line(path, [&](const JsonObject& line) {
    switch (metrics_line_kind(line)) {
      case MetricsLine::kStep: add_step(line, run); break;
      case MetricsLine::kEval: run.evals.push_back(eval_line_of(line)); break;
      case MetricsLine::kWarning: run.warnings.push_back(warning_line_of(line)); break;
      case MetricsLine::kSave: break;  // timeline.json holds their sum
    }
  });
}

void read_energy(const fs::path& path, RunFolder& run) {
  run.num_broken_energy_lines =
      each_sound_json_line(path, [&](const JsonObject& line) { run.energy.push_back(energy_line_of(line)); });
}

void read_samples(const fs::path& path, RunFolder& run) {
  each_json_line(path, [&](const JsonObject& line) {
    run.samples.push_back({.step = line.integer("step"),
                           .prompt = line.text("prompt").value_or(""),
                           .text = line.text("text").value_or("")});
  });
}

double& bytes_of(MemoryFacts& facts, const std::string& owner, double OwnerBytes::*part) {
  auto found = std::find_if(facts.owners.begin(), facts.owners.end(),
                            [&](const OwnerBytes& entry) { return entry.owner == owner; });
  if (found == facts.owners.end()) found = facts.owners.insert(found, {.owner = owner});
  return (*found).*part;
}

MemoryFacts memory_facts(const JsonObject& memory) {
  MemoryFacts facts{.total_bytes = memory.real("total_bytes").value_or(0.0),
                    .is_exact = memory.boolean("exact").value_or(false)};
  if (const nlohmann::json* const beyond = memory.find("beyond_plan")) {
    const JsonObject bytes(*beyond, memory.where() + ": beyond_plan");
    facts.beyond_plan_bytes = bytes.real("measured_bytes");
    facts.is_beyond_plan_measured = facts.beyond_plan_bytes.has_value();
    if (!facts.beyond_plan_bytes) facts.beyond_plan_bytes = bytes.real("predicted_bytes");
  }
  const auto keep = [&](double OwnerBytes::*part) {
    return [&facts, part](const std::string& owner, double bytes) {
      if (bytes > 0.0) bytes_of(facts, owner, part) = bytes;
    };
  };
  memory.each_number("owners", keep(&OwnerBytes::run_bytes));
  double fullest = -1.0;
  memory.each("peaks",
              [&](const JsonObject& peak) { fullest = std::max(fullest, peak.real("live_bytes").value_or(0)); });
  memory.each("peaks", [&](const JsonObject& peak) {
    if (!facts.peak_name.empty() || peak.real("live_bytes").value_or(0) < fullest) return;
    facts.peak_name = peak.text("name").value_or("unnamed phase");
    peak.each_number("owners", keep(&OwnerBytes::peak_bytes));
  });
  const auto bytes = [](const OwnerBytes& owner) { return owner.run_bytes + owner.peak_bytes; };
  std::stable_sort(facts.owners.begin(), facts.owners.end(),
                   [&](const OwnerBytes& a, const OwnerBytes& b) { return bytes(a) > bytes(b); });
  return facts;
}

void read_memory(const fs::path& path, RunFolder& run) {
  if (!is_present(path)) return;
  const nlohmann::json file = read_json_file(path);
  const JsonObject object(file, path.string());
  if (const nlohmann::json* const model = object.find("model")) {
    const JsonObject facts(*model, path.string() + ": model");
    run.model = facts.text("headline").value_or("");
    run.num_parameters = facts.real("parameters");
  }
  if (const nlohmann::json* const memory = object.find("memory")) {
    run.memory = memory_facts(JsonObject(*memory, path.string() + ": memory"));
  }
}

void read_timeline(const fs::path& path, RunFolder& run) {
  if (!is_present(path)) return;
  const nlohmann::json file = read_json_file(path);
  const JsonObject object(file, path.string());
  TimelineFacts facts{.num_sampled_steps = object.integer("sampled_steps").value_or(0)};
  object.each("scopes", [&](const JsonObject& scope) {
    facts.scopes.push_back(
        {.name = scope.text("name").value_or("unnamed scope"), .seconds = scope.real("seconds").value_or(0.0)});
  });
  std::stable_sort(facts.scopes.begin(), facts.scopes.end(),
                   [](const ScopeTime& a, const ScopeTime& b) { return a.seconds > b.seconds; });
  if (const nlohmann::json* const whole = object.find("run")) {
    const JsonObject rows(*whole, path.string() + ": run");
    const double steps = rows.real("steps_seconds").value_or(0.0);
    const double data_wait = rows.real("data_wait_seconds").value_or(0.0);
    facts.run = {{.name = "steps", .seconds = std::max(0.0, steps - data_wait)},
                 {.name = "waiting for data", .seconds = data_wait},
                 {.name = "evaluations", .seconds = rows.real("eval_seconds").value_or(0.0)},
                 {.name = "sampled texts", .seconds = rows.real("sample_seconds").value_or(0.0)},
                 {.name = "checkpoints", .seconds = rows.real("checkpoint_seconds").value_or(0.0)},
                 {.name = "other", .seconds = rows.real("other_seconds").value_or(0.0)}};
  }
  if (const nlohmann::json* const cost = object.find("observing")) {
    facts.cost_share = JsonObject(*cost, path.string() + ": observing").real("share");
  }
  run.timeline = std::move(facts);
}

/// Complete ones: the marker is written last.
std::vector<int64_t> checkpoint_steps(const fs::path& folder) {
  std::vector<int64_t> steps;
  std::error_code status;
  for (fs::directory_iterator entry(folder, status), end; !status && entry != end; entry.increment(status)) {
    const std::string name = entry->path().filename().string();
    constexpr std::string_view kStart = "step-";
    int64_t step = 0;
    if (!name.starts_with(kStart)) continue;
    const auto [last, error] = std::from_chars(name.data() + kStart.size(), name.data() + name.size(), step);
    const bool is_step = error == std::errc() && last == name.data() + name.size() && step >= 0;
    std::error_code ignored;
    if (is_step && fs::exists(entry->path() / "COMPLETE", ignored)) steps.push_back(step);
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

std::string folder_name(const fs::path& folder) {
  std::error_code status;
  const fs::path whole = fs::weakly_canonical(folder, status);
  return (status ? folder : whole).filename().string();
}

}  // namespace

RunFolder read_run_folder(const fs::path& folder) {
  if (!is_present(folder / "run.toml")) {
    throw DataError(folder.string(), "is not a run folder", "no run.toml in it", "the folder of a litespark train");
  }
  RunFolder run{.name = folder_name(folder), .run_toml = read_text_file(folder / "run.toml", kLargestConfigBytes)};
  read_metrics(folder / "metrics.jsonl", run);
  read_energy(folder / "energy.jsonl", run);
  read_memory(folder / "memory.json", run);
  run.prediction = read_prediction(folder / "forecast.json");
  read_timeline(folder / "timeline.json", run);
  read_samples(folder / "samples.jsonl", run);
  run.checkpoints = checkpoint_steps(folder / "checkpoints");
  return run;
}

}  // namespace litespark::report
