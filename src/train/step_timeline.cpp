// SPDX-License-Identifier: Apache-2.0
#include "train/step_timeline.h"

#include "core/error.h"

namespace litespark {
namespace {

constexpr std::string_view kForward = "forward";

}  // namespace

void StepTimeline::mark(const Beginning& beginning) {
  timer_->mark();
  beginnings_.push_back(beginning);
}

void StepTimeline::begin() {
  beginnings_.clear();
  mark({.scope = kOtherScope});
}

void StepTimeline::before(const TapeEntry& entry) {
  mark({.scope = entry.scope, .op = op_name(entry.op), .layer = entry.layer, .is_recomputed = entry.is_recomputed});
}

void StepTimeline::enter(std::string_view scope) {
  mark({.scope = scope.empty() ? kOtherScope : scope});
}

SampledStep StepTimeline::end(int64_t step) {
  timer_->mark();
  const std::vector<double> moments = timer_->take();
  if (moments.size() != beginnings_.size() + 1) {
    throw InternalError("step_timeline", "marks of the timer", moments.size(), beginnings_.size() + 1);
  }
  SampledStep sample{.step = step, .spans = {}};
  sample.spans.reserve(beginnings_.size());
  for (size_t i = 0; i < beginnings_.size(); ++i) {
    const Beginning& beginning = beginnings_[i];
    std::string scope(beginning.scope);
    if (beginning.is_recomputed) scope.replace(0, kForward.size(), "recompute");
    sample.spans.push_back({.scope = std::move(scope),
                            .op = std::string(beginning.op),
                            .layer = beginning.layer,
                            .begin_seconds = moments[i],
                            .end_seconds = moments[i + 1]});
  }
  return sample;
}

}  // namespace litespark
