// SPDX-License-Identifier: Apache-2.0
#include "report/run_facts.h"

#include <algorithm>

namespace litespark::report {
namespace {

using StepValue = std::optional<double> StepLine::*;

PartialSum sum_of(const std::vector<StepLine>& steps, StepValue value) {
  PartialSum sum{.num_all = static_cast<int64_t>(steps.size())};
  for (const StepLine& step : steps) {
    if (!(step.*value)) continue;
    sum.sum += *(step.*value);
    ++sum.num_measured;
  }
  return sum;
}

std::optional<double> median_of(const std::vector<StepLine>& steps, StepValue value) {
  std::vector<double> values;
  for (const StepLine& step : steps) {
    if (step.*value) values.push_back(*(step.*value));
  }
  return median(std::move(values));
}

std::optional<double> last_of(const std::vector<StepLine>& steps, StepValue value) {
  const auto found =
      std::find_if(steps.rbegin(), steps.rend(), [&](const StepLine& step) { return (step.*value).has_value(); });
  return found == steps.rend() ? std::nullopt : (*found).*value;
}

std::vector<DeviceEnergy> energy_by_device(const std::vector<EnergyLine>& lines) {
  std::vector<DeviceEnergy> devices;
  for (const EnergyLine& line : lines) {
    auto found = std::find_if(devices.begin(), devices.end(), [&](const DeviceEnergy& device) {
      return device.device == line.device && device.method == line.method;
    });
    if (found == devices.end()) {
      found = devices.insert(found, {.device = line.device, .method = line.method, .joules = {}});
    }
    ++found->joules.num_all;
    if (!line.joules) continue;
    found->joules.sum += *line.joules;
    ++found->joules.num_measured;
    found->seconds += line.seconds.value_or(0.0);
  }
  return devices;
}

/// nullopt when an interval of a device is unknown.
std::optional<double> whole_joules(const std::vector<DeviceEnergy>& devices) {
  double sum = 0.0;
  for (const DeviceEnergy& device : devices) {
    if (!device.joules.is_whole()) return std::nullopt;
    sum += device.joules.sum;
  }
  return sum;
}

}  // namespace

std::optional<double> DeviceEnergy::mean_watts() const {
  return joules.is_measured() && seconds > 0.0 ? std::optional(joules.sum / seconds) : std::nullopt;
}

std::optional<double> median(std::vector<double> values) {
  if (values.empty()) return std::nullopt;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return *std::max_element(values.begin(), middle) / 2 + *middle / 2;
}

RunFacts run_facts(const RunFolder& run) {
  RunFacts facts{.tokens = last_of(run.steps, &StepLine::tokens),
                 .last_loss = last_of(run.steps, &StepLine::loss),
                 .median_tokens_per_second = median_of(run.steps, &StepLine::tokens_per_second),
                 .median_mfu = median_of(run.steps, &StepLine::mfu),
                 .data_wait_seconds = sum_of(run.steps, &StepLine::data_wait_seconds).sum,
                 .step_joules = sum_of(run.steps, &StepLine::joules),
                 .co2_grams = sum_of(run.steps, &StepLine::co2_grams),
                 .devices = energy_by_device(run.energy)};
  facts.joules = facts.step_joules;
  const std::optional<double> of_devices = whole_joules(facts.devices);
  if (of_devices && facts.step_joules.is_measured() && facts.step_joules.is_whole() &&
      *of_devices > facts.step_joules.sum) {
    if (facts.step_joules.sum > 0.0) facts.co2_grams.sum *= *of_devices / facts.step_joules.sum;
    facts.joules.sum = *of_devices;
  }
  if (!run.steps.empty()) facts.last_step = run.steps.back().step;
  for (const EvalLine& eval : run.evals) {
    if (!eval.loss) continue;
    facts.last_eval_loss = eval.loss;
    facts.best_eval_loss = std::min(*eval.loss, facts.best_eval_loss.value_or(*eval.loss));
  }
  for (const DeviceEnergy& device : facts.devices) {
    if (device.joules.is_measured() && device.method.starts_with("estimat")) facts.is_energy_estimated = true;
  }
  facts.num_skipped =
      std::count_if(run.steps.begin(), run.steps.end(), [](const StepLine& step) { return step.skipped; });
  return facts;
}

}  // namespace litespark::report
