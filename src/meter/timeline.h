// SPDX-License-Identifier: Apache-2.0
// Time by scope. A sampled step is a chain of spans from its start to its end, so the scopes of a step add up to its
// time: what no scope claims is the scope "other".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace litespark {

/// The scope of time that nobody claims.
inline constexpr std::string_view kOtherScope = "other";

struct TimeSpan {
  std::string scope;  ///< "forward.attention", "data.wait"
  std::string op;     ///< the op's name; empty: no op runs
  int32_t layer = -1;
  double begin_seconds = 0;  ///< after the step's start
  double end_seconds = 0;
};

/// One step that was observed.
struct SampledStep {
  int64_t step = 0;
  std::vector<TimeSpan> spans;  ///< in order; each begins where the one before it ends

  double seconds() const { return spans.empty() ? 0.0 : spans.back().end_seconds; }
};

struct ScopeSeconds {
  std::string name;
  double seconds = 0;  ///< of a step, mean over the samples
  double share = 0;    ///< of the steps' time
};

/// "forward", "backward", "recompute", "optimizer", "data", "other": a scope's name up to its first dot.
std::string_view scope_kind(std::string_view scope);

/// Where the time of a run went outside its steps too; wall time.
struct RunSeconds {
  double steps = 0;
  double data_wait = 0;  ///< of the steps'
  double eval = 0;
  double sample = 0;      ///< texts during the run
  double checkpoint = 0;  ///< that the run stood still for; writing goes on beside the steps
  double whole = 0;       ///< from the first step's start to now

  /// Records, console, whatever stands between steps; never negative.
  double other() const;
};

/// Sums over sampled steps.
class Timeline {
 public:
  void add(const SampledStep& step);

  int64_t num_steps() const { return num_steps_; }
  /// Mean time of a sampled step; 0 without samples.
  double step_seconds() const;
  /// From the longest to the shortest; their seconds add up to step_seconds().
  std::vector<ScopeSeconds> scopes() const;

 private:
  int64_t num_steps_ = 0;
  double seconds_ = 0;
  std::vector<ScopeSeconds> sums_;
};

/// What observing cost: the sampled steps' time beyond that of their neighbours.
struct ObservingCost {
  double seconds = 0;
  double share = 0;  ///< of the time of all steps
};

/// timeline.json: {"sampled_steps", "step_seconds", "scopes": [{"name", "kind", "seconds", "share"}], "run": {...},
/// "observing": {"seconds", "share"}}.
std::string timeline_json(const Timeline& timeline, const RunSeconds& run, const ObservingCost& cost);

/// The scopes as a table for people, those below 1 % in one row, and the run's rows under it.
std::string timeline_text(const Timeline& timeline, const RunSeconds& run);

/// One step in the Trace Event Format that Perfetto and chrome://tracing open: a track of kinds, one of scopes, one of
/// ops with their layers; microseconds.
std::string chrome_trace_json(const SampledStep& step);

}  // namespace litespark
