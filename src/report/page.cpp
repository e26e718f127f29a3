// SPDX-License-Identifier: Apache-2.0
#include "report/page.h"

#include <cmath>
#include <limits>

#include "core/text_table.h"
#include "io/file.h"
#include "report/html.h"
#include "report/line_chart.h"
#include "report/number_text.h"
#include "report/page_style.h"
#include "report/run_facts.h"

namespace litespark::report {
namespace {

constexpr double kAbsent = std::numeric_limits<double>::quiet_NaN();
/// The last ones: samples are looked at, not archived.
constexpr size_t kMostSamples = 20;

std::string section(const std::string& title, const std::string& body) {
  return "<section>\n<h2>" + escape_html(title) + "</h2>\n" + body + "</section>\n";
}

std::string sentence(const std::string& text) {
  return "<p class=\"absent\">" + escape_html(text) + "</p>\n";
}

std::string panel(const std::string& body) {
  return "<div class=\"panel\">\n" + body + "</div>\n";
}

/// An empty value reads as `absent`.
std::string card(const std::string& name, const std::string& value, const std::string& absent = "not measured") {
  return "<div class=\"card\"><span>" + escape_html(name) + "</span><b" + (value.empty() ? " class=\"absent\"" : "") +
         ">" + escape_html(value.empty() ? absent : value) + "</b></div>\n";
}

std::string text_or_empty(const std::optional<double>& value, const std::string& unit = "", int digits = 4) {
  return value ? number_text(*value, digits) + unit : "";
}

/// A sum of some of its parts is shown as such.
std::string sum_text(const PartialSum& sum, const std::string& unit) {
  if (!sum.is_measured()) return "";
  const std::string text = number_text(sum.sum) + " " + unit;
  return sum.is_whole() ? text
                        : text + " (" + std::to_string(sum.num_measured) + " of " + std::to_string(sum.num_all) + ")";
}

std::string cards(const RunFolder& run, const RunFacts& facts) {
  const auto percent = [](const std::optional<double>& share) {
    return share ? number_text(*share * 100.0, 3) + " %" : std::string();
  };
  const std::string estimated = facts.is_energy_estimated ? ", estimated" : "";
  return "<div class=\"cards\">\n" +
         card("parameters", run.num_parameters ? count_text(std::llround(*run.num_parameters)) : "", "unknown") +
         card("steps", facts.last_step ? std::to_string(*facts.last_step) : "", "none yet") +
         card("tokens", facts.tokens ? count_text(std::llround(*facts.tokens)) : "", "none yet") +
         card("last loss", text_or_empty(facts.last_loss), "none yet") +
         card("last evaluation loss", text_or_empty(facts.last_eval_loss), "no evaluation") +
         card("tokens/s, median", text_or_empty(facts.median_tokens_per_second)) +
         card("MFU, median", percent(facts.median_mfu)) + card("energy" + estimated, sum_text(facts.joules, "J")) +
         card("carbon (CO2e)" + estimated, sum_text(facts.co2_grams, "g")) +
         card("skipped steps", facts.last_step ? std::to_string(facts.num_skipped) : "", "none yet") + "</div>\n";
}

ChartSeries step_series(const RunFolder& run, const std::string& name, std::optional<double> StepLine::*value,
                        double factor = 1.0) {
  ChartSeries series{.name = name, .points = {}};
  for (const StepLine& step : run.steps) {
    const std::optional<double>& y = step.*value;
    series.points.push_back({.x = static_cast<double>(step.step), .y = y ? *y * factor : kAbsent});
  }
  return series;
}

std::string chart_or_sentence(const LineChart& chart) {
  if (has_values(chart)) return line_chart_html(chart);
  return "<figure class=\"absent\"><figcaption>" + escape_html(chart.title) +
         "</figcaption><p>not measured</p></figure>\n";
}

LineChart loss_chart(const RunFolder& run) {
  LineChart chart{.title = "Loss", .unit = "nats", .series = {step_series(run, "training", &StepLine::loss)}};
  ChartSeries evals{.name = "evaluation", .points = {}, .style = "second", .has_markers = true};
  for (const EvalLine& eval : run.evals) {
    evals.points.push_back({.x = static_cast<double>(eval.step), .y = eval.loss.value_or(kAbsent)});
  }
  if (!evals.points.empty()) chart.series.push_back(std::move(evals));
  return chart;
}

std::string charts(const RunFolder& run) {
  const auto simple = [&](const char* title, const char* name, const char* unit, std::optional<double> StepLine::*value,
                          double factor = 1.0) {
    return chart_or_sentence(
        {.title = title, .unit = unit, .series = {step_series(run, name, value, factor)}, .starts_at_zero = true});
  };
  return "<div class=\"charts\">\n" + chart_or_sentence(loss_chart(run)) +
         simple("Learning rate", "lr", "", &StepLine::lr) + simple("Gradient norm", "norm", "", &StepLine::grad_norm) +
         simple("Tokens per second", "tokens/s", "tokens/s", &StepLine::tokens_per_second) +
         simple("Model FLOPs utilisation", "MFU %", "%", &StepLine::mfu, 100.0) +
         simple("Power", "watts", "W", &StepLine::watts) + "</div>\n";
}

std::string energy_totals(const RunFacts& facts) {
  std::vector<std::vector<std::string>> rows;
  const auto add = [&](const char* name, const std::string& value) {
    rows.push_back({name, value.empty() ? "not measured" : value});
  };
  add("energy", sum_text(facts.joules, "J"));
  const double outside = facts.joules.sum - facts.step_joules.sum;
  if (outside > 0.0) add("of it outside the recorded steps", number_text(outside) + " J");
  add("in kilowatt-hours", facts.joules.is_measured() ? number_text(facts.joules.sum / 3.6e6) + " kWh" : "");
  const bool has_rate = facts.joules.is_measured() && facts.joules.is_whole() && facts.tokens && *facts.tokens > 0;
  add("energy per 1,000 tokens", has_rate ? number_text(facts.joules.sum / *facts.tokens * 1000.0) + " J" : "");
  add("carbon", sum_text(facts.co2_grams, "g CO2e"));
  return html_table({"the run", ""}, rows);
}

std::string energy_section(const RunFolder& run, const RunFacts& facts) {
  std::string body;
  if (!facts.joules.is_measured() && !facts.co2_grams.is_measured() && facts.devices.empty()) {
    return sentence("Energy and carbon were not measured.");
  }
  body = panel(energy_totals(facts));
  if (facts.devices.empty()) return body + sentence("energy.jsonl, which names devices and methods, is not there.");
  std::vector<std::vector<std::string>> rows;
  for (const DeviceEnergy& device : facts.devices) {
    const bool is_known = device.joules.is_measured();
    rows.push_back({device.device, device.method, std::to_string(device.joules.num_all),
                    is_known ? duration_text(device.seconds) : "not measured",
                    is_known ? sum_text(device.joules, "J") : "not measured",
                    device.mean_watts() ? number_text(*device.mean_watts()) + " W" : "not measured"});
  }
  const std::string broken =
      run.num_broken_energy_lines == 0
          ? ""
          : sentence("Unreadable lines of energy.jsonl, left out: " + std::to_string(run.num_broken_energy_lines) +
                     ".");
  return body + "<br>\n" + panel(html_table({"device", "method", "intervals", "time", "energy", "mean power"}, rows)) +
         broken;
}

std::string memory_section(const RunFolder& run) {
  if (!run.memory) return sentence("memory.json, which the start of a run writes, is not there.");
  std::vector<Bar> bars;
  double sum = 0.0;
  for (const OwnerBytes& owner : run.memory->owners) {
    const double bytes = owner.run_bytes + owner.peak_bytes;
    bars.push_back({.name = owner.owner, .amount = bytes, .value_text = bytes_text(std::llround(bytes))});
    sum += bytes;
  }
  const double rest = run.memory->total_bytes - sum;
  if (rest >= 1.0) bars.push_back({.name = "gaps", .amount = rest, .value_text = bytes_text(std::llround(rest))});
  if (const auto& beyond = run.memory->beyond_plan_bytes) {
    bars.push_back(
        {.name = std::string("beyond the plan, ") + (run.memory->is_beyond_plan_measured ? "measured" : "predicted"),
         .amount = *beyond,
         .value_text = bytes_text(std::llround(*beyond))});
  }
  return sentence(bytes_text(std::llround(run.memory->total_bytes)) + " planned in all, library sizes " +
                  (run.memory->is_exact ? "exact" : "estimated") + "; each owner's bytes at the fullest moment" +
                  (run.memory->peak_name.empty() ? "" : ", in " + run.memory->peak_name) + ".") +
         panel(html_bars(bars));
}

std::string time_bars(const std::vector<ScopeTime>& times) {
  std::vector<Bar> bars;
  for (const ScopeTime& time : times) {
    bars.push_back({.name = time.name, .amount = time.seconds, .value_text = duration_text(time.seconds)});
  }
  return panel(html_bars(bars));
}

std::string time_section(const RunFolder& run) {
  if (!run.timeline || (run.timeline->scopes.empty() && run.timeline->run.empty())) {
    return sentence("Time by scope was not recorded.");
  }
  const TimelineFacts& facts = *run.timeline;
  std::string out;
  if (!facts.scopes.empty()) {
    out =
        sentence("A step, mean over " + std::to_string(facts.num_sampled_steps) + " sampled; the scopes add up to it." +
                 (facts.cost_share ? " Observing took " + number_text(100.0 * *facts.cost_share, 2) +
                                         " % of the steps' time. trace.json holds one step for Perfetto."
                                   : "")) +
        time_bars(facts.scopes);
  }
  if (!facts.run.empty())
    out += sentence("The run from its first step on, since its last start.") + time_bars(facts.run);
  return out;
}

/// "" without warnings.
std::string warnings_section(const RunFolder& run) {
  if (run.warnings.empty()) return "";
  std::vector<std::vector<std::string>> rows;
  for (const WarningLine& warning : run.warnings) rows.push_back({std::to_string(warning.step), warning.text});
  return section("Warnings", panel(html_table({"step", "warning"}, rows)));
}

std::string samples_section(const RunFolder& run) {
  if (run.samples.empty()) return sentence("The run took no samples.");
  std::string out;
  const size_t first = run.samples.size() - std::min(run.samples.size(), kMostSamples);
  for (size_t i = first; i < run.samples.size(); ++i) {
    const Sample& sample = run.samples[i];
    out += "<div class=\"panel sample\"><small>" +
           (sample.step ? "after step " + std::to_string(*sample.step) : std::string("sample")) + "</small><b>" +
           escape_html(sample.prompt) + "</b>" + escape_html(sample.text) + "</div>\n";
  }
  return out;
}

std::string checkpoints_section(const RunFolder& run) {
  if (run.checkpoints.empty()) return sentence("The run folder holds no complete checkpoint.");
  std::string list;
  for (const int64_t step : run.checkpoints) list += (list.empty() ? "" : ", ") + ("step-" + std::to_string(step));
  return "<p>In checkpoints/: " + escape_html(list) + ".</p>\n";
}

}  // namespace

std::string report_page(const RunFolder& run) {
  const RunFacts facts = run_facts(run);
  return "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
         // The page may run what stands in it and load nothing.
         "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
         "script-src 'unsafe-inline'\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
         "<title>" +
         escape_html(run.name) + ": Litespark run</title>\n<style>" + std::string(kPageStyle) +
         "</style>\n</head>\n<body>\n<main>\n<header><h1>" + escape_html(run.name) + "</h1>\n<p>" +
         escape_html(run.model.empty() ? "A Litespark run" : run.model) + "</p></header>\n" + cards(run, facts) +
         warnings_section(run) + section("Training", charts(run)) +
         section("Energy and carbon", energy_section(run, facts)) + section("Memory by owner", memory_section(run)) +
         section("Predicted beside measured", prediction_section(run, facts)) +
         section("Time by scope", time_section(run)) + section("Samples", samples_section(run)) +
         section("Checkpoints", checkpoints_section(run)) +
         section("Effective configuration", "<details class=\"panel\" open><summary>run.toml</summary><pre>" +
                                                escape_html(run.run_toml) + "</pre></details>\n") +
         "<footer>Written by litespark report; this page loads nothing from anywhere.</footer>\n</main>\n<script>" +
         std::string(kPageScript) + "</script>\n</body>\n</html>\n";
}

std::filesystem::path write_report(const std::filesystem::path& folder) {
  std::filesystem::path path = folder / "report.html";
  write_text_file(path, report_page(read_run_folder(folder)));
  return path;
}

}  // namespace litespark::report
