// SPDX-License-Identifier: Apache-2.0
#include "meter/timeline.h"

#include <algorithm>

#include "core/json_text.h"
#include "core/text_table.h"

namespace litespark {
namespace {

/// On the console; timeline.json and the report have them all.
constexpr double kSmallestShownShare = 0.01;

std::string percent_text(double share) {
  return fixed_text(100.0 * share) + " %";
}

double share_of(double part, double whole) {
  return whole > 0 ? part / whole : 0.0;
}

std::string field(std::string_view name, const std::string& value) {
  return json_string(name) + ": " + value;
}

}  // namespace

std::string_view scope_kind(std::string_view scope) {
  return scope.substr(0, scope.find('.'));
}

double RunSeconds::other() const {
  return std::max(0.0, whole - steps - eval - sample - checkpoint);
}

void Timeline::add(const SampledStep& step) {
  ++num_steps_;
  seconds_ += step.seconds();
  for (const TimeSpan& span : step.spans) {
    auto found =
        std::find_if(sums_.begin(), sums_.end(), [&](const ScopeSeconds& sum) { return sum.name == span.scope; });
    if (found == sums_.end()) found = sums_.insert(found, {.name = span.scope});
    found->seconds += span.end_seconds - span.begin_seconds;
  }
}

double Timeline::step_seconds() const {
  return num_steps_ > 0 ? seconds_ / static_cast<double>(num_steps_) : 0.0;
}

std::vector<ScopeSeconds> Timeline::scopes() const {
  std::vector<ScopeSeconds> means = sums_;
  for (ScopeSeconds& scope : means) {
    scope.share = share_of(scope.seconds, seconds_);
    scope.seconds /= static_cast<double>(num_steps_);
  }
  std::stable_sort(means.begin(), means.end(),
                   [](const ScopeSeconds& a, const ScopeSeconds& b) { return a.seconds > b.seconds; });
  return means;
}

std::string timeline_json(const Timeline& timeline, const RunSeconds& run, const ObservingCost& cost) {
  std::string scopes;
  for (const ScopeSeconds& scope : timeline.scopes()) {
    scopes += (scopes.empty() ? "\n    {" : ",\n    {") + field("name", json_string(scope.name)) + ", " +
              field("kind", json_string(scope_kind(scope.name))) + ", " + field("seconds", json_number(scope.seconds)) +
              ", " + field("share", json_number(scope.share)) + "}";
  }
  return "{\n  " + field("sampled_steps", std::to_string(timeline.num_steps())) + ",\n  " +
         field("step_seconds", json_number(timeline.step_seconds())) + ",\n  " +
         field("scopes", "[" + scopes + "\n  ]") + ",\n  \"run\": {" + field("seconds", json_number(run.whole)) + ", " +
         field("steps_seconds", json_number(run.steps)) + ", " +
         field("data_wait_seconds", json_number(run.data_wait)) + ", " + field("eval_seconds", json_number(run.eval)) +
         ", " + field("sample_seconds", json_number(run.sample)) + ", " +
         field("checkpoint_seconds", json_number(run.checkpoint)) + ", " +
         field("other_seconds", json_number(run.other())) + "},\n  \"observing\": {" +
         field("seconds", json_number(cost.seconds)) + ", " + field("share", json_number(cost.share)) + "}\n}\n";
}

std::string timeline_text(const Timeline& timeline, const RunSeconds& run) {
  std::string text;
  if (timeline.num_steps() > 0) {
    TextTable table({"time of a step", "ms", "share"});
    ScopeSeconds smaller;
    int num_smaller = 0;
    for (const ScopeSeconds& scope : timeline.scopes()) {
      if (scope.share >= kSmallestShownShare) {
        table.add({scope.name, fixed_text(1e3 * scope.seconds, 2), percent_text(scope.share)});
        continue;
      }
      ++num_smaller;
      smaller.seconds += scope.seconds;
      smaller.share += scope.share;
    }
    if (num_smaller > 0) {
      table.add({std::to_string(num_smaller) + " smaller ones", fixed_text(1e3 * smaller.seconds, 2),
                 percent_text(smaller.share)});
    }
    table.add_rule();
    table.add({"mean of " + std::to_string(timeline.num_steps()) + " sampled",
               fixed_text(1e3 * timeline.step_seconds(), 2), percent_text(1.0)});
    text = table.to_string("  ") + "\n";
  }
  const auto row = [&](const char* name, double seconds) {
    return std::vector<std::string>{name, fixed_text(seconds), percent_text(share_of(seconds, run.whole))};
  };
  TextTable table({"time of the run", "s", "share"});
  table.add(row("steps", run.steps));
  table.add(row("  of it waiting for data", run.data_wait));
  table.add(row("evaluations", run.eval));
  table.add(row("sampled texts", run.sample));
  table.add(row("checkpoints", run.checkpoint));
  table.add(row("other", run.other()));
  table.add_rule();
  table.add(row("from the first step on", run.whole));
  return text + table.to_string("  ");
}

}  // namespace litespark
