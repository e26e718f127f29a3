// SPDX-License-Identifier: Apache-2.0
#include "report/run_folder.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "core/error.h"
#include "io/file.h"
#include "io/json_file.h"
#include "report/json_access.h"

namespace litespark::report {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kLargestConfigBytes = int64_t{1} << 20;

int64_t step_of(const JsonObject& line) {
  const auto step = line.integer("step");
  if (!step || *step < 0) throw DataError(line.where(), "a line needs a \"step\" of 0 or more");
  return *step;
}

void read_metrics(const fs::path& path, RunFolder& run) {
  each_json_line(path, [&](const JsonObject& line) {
    const int64_t step = step_of(line);
    if (line.find("eval_loss") != nullptr || line.find("eval_tokens") != nullptr) {
      run.evals.push_back({.step = step, .loss = line.real("eval_loss")});
      return;
    }
    if (const auto warning = line.text("warning")) {
      run.warnings.push_back({.step = step, .text = *warning});
      return;
    }
    if (line.find("checkpoint_seconds") != nullptr) return;  // timeline.json holds their sum
    if (!run.steps.empty() && step <= run.steps.back().step) {
      throw DataError(line.where(), "steps must ascend", step, "more than " + std::to_string(run.steps.back().step));
    }
    run.steps.push_back({.step = step,
                         .tokens = line.real("tokens"),
                         .loss = line.real("loss"),
                         .grad_norm = line.real("grad_norm"),
                         .lr = line.real("lr"),
                         .tokens_per_second = line.real("tokens_per_second"),
                         .mfu = line.real("mfu"),
                         .watts = line.real("watts"),
                         .joules = line.real("joules"),
                         .co2_grams = line.real("co2_grams"),
                         .data_wait_seconds = line.real("data_wait_seconds"),
                         .skipped = line.boolean("skipped").value_or(false)});
  });
}

void read_energy(const fs::path& path, RunFolder& run) {
  run.num_broken_energy_lines = each_sound_json_line(path, [&](const JsonObject& line) {
    run.energy.push_back({.device = line.text("device").value_or("unnamed device"),
                          .method = line.text("method").value_or("unknown method"),
                          .step = line.integer("step"),
                          .seconds = line.real("seconds"),
                          .joules = line.real("joules"),
                          .watts = line.real("watts")});
  });
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
  if (!fs::exists(path)) return;
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
  if (!fs::exists(path)) return;
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
  if (!fs::exists(folder / "run.toml")) {
    throw DataError(folder.string(), "is not a run folder", "no run.toml in it", "the folder of a litespark train");
  }
  RunFolder run{.name = folder_name(folder), .run_toml = read_text_file(folder / "run.toml", kLargestConfigBytes)};
  read_metrics(folder / "metrics.jsonl", run);
  read_energy(folder / "energy.jsonl", run);
  read_memory(folder / "memory.json", run);
  read_timeline(folder / "timeline.json", run);
  read_samples(folder / "samples.jsonl", run);
  run.checkpoints = checkpoint_steps(folder / "checkpoints");
  return run;
}

}  // namespace litespark::report
