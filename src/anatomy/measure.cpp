// SPDX-License-Identifier: Apache-2.0
#include "anatomy/measure.h"

#include <algorithm>

#include "meter/energy.h"

namespace litespark::anatomy {
namespace {

/// Runs between two looks at the clock, so that a GPU always has work ahead of it.
constexpr int kMostRunsAhead = 16;
constexpr size_t kMostRuns = 2000;

}  // namespace

double median_of(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

Timing time_runs(Backend& backend, double seconds, const std::function<void()>& body) {
  const std::unique_ptr<DeviceTimer> timer = backend.make_timer();
  body();
  backend.synchronize();
  std::vector<double> runs;
  int ahead = 1;
  const double start = monotonic_seconds();
  do {
    timer->mark();
    for (int run = 0; run < ahead; ++run) {
      body();
      timer->mark();
    }
    const std::vector<double> moments = timer->take();
    for (size_t i = 1; i < moments.size(); ++i) runs.push_back(moments[i] - moments[i - 1]);
    // As many as fit into what is left, so that one long run does not become sixteen.
    const double left = seconds - (monotonic_seconds() - start);
    ahead = std::clamp(static_cast<int>(left / std::max(runs.back(), 1e-7)), 1, kMostRunsAhead);
  } while (monotonic_seconds() - start < seconds && runs.size() < kMostRuns);
  return {.median_seconds = median_of(runs),
          .best_seconds = *std::min_element(runs.begin(), runs.end()),
          .num_runs = static_cast<int>(runs.size())};
}

}  // namespace litespark::anatomy
