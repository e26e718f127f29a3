// SPDX-License-Identifier: Apache-2.0
#include "meter/cpu_model.h"

#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <utility>

namespace litespark {
namespace {

class CpuEstimate final : public EnergySensor {
 public:
  CpuEstimate(const CpuModel& model, std::function<std::optional<double>()> cpu_seconds)
      : model_(model), cpu_seconds_(std::move(cpu_seconds)) {}

  std::string device() const override { return "cpu"; }
  EnergyPart part() const override { return EnergyPart::kCpu; }

  EnergyReading read(double now_seconds) override {
    const std::optional<double> used = cpu_seconds_();
    const std::optional<double> before = std::exchange(last_used_, used);
    const double wall = now_seconds - std::exchange(last_seconds_, now_seconds);
    if (!used || !before || *used < *before || wall < 0) return {};
    const double busy = std::min(*used - *before, wall * model_.num_cores);
    return {.joules = model_.idle_watts * wall + model_.watts_per_busy_core * busy, .method = EnergyMethod::kEstimated};
  }

 private:
  CpuModel model_;
  std::function<std::optional<double>()> cpu_seconds_;
  std::optional<double> last_used_;
  double last_seconds_ = 0;
};

class MemoryEstimate final : public EnergySensor {
 public:
  explicit MemoryEstimate(double watts) : watts_(watts) {}

  std::string device() const override { return "memory"; }
  EnergyPart part() const override { return EnergyPart::kRam; }

  EnergyReading read(double now_seconds) override {
    const std::optional<double> joules = integral_.advance(now_seconds, watts_);
    return {.joules = joules, .method = joules ? EnergyMethod::kEstimated : EnergyMethod::kUnavailable};
  }

 private:
  double watts_;
  PowerIntegral integral_;
};

}  // namespace

CpuModel cpu_model_of_this_machine() {
  const long cores = std::max(1L, sysconf(_SC_NPROCESSORS_ONLN));
  const double memory = static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  return {.idle_watts = kIdleWattsPerCore * static_cast<double>(cores),
          .num_cores = static_cast<int>(cores),
          .memory_gib = memory / static_cast<double>(int64_t{1} << 30)};
}

std::optional<double> process_cpu_seconds() {
  timespec time{};
  if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time) != 0) return std::nullopt;
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

std::unique_ptr<EnergySensor> make_cpu_estimate(const CpuModel& model,
                                                std::function<std::optional<double>()> cpu_seconds) {
  return std::make_unique<CpuEstimate>(model, std::move(cpu_seconds));
}

std::unique_ptr<EnergySensor> make_memory_estimate(const CpuModel& model) {
  return std::make_unique<MemoryEstimate>(model.watts_per_gib * model.memory_gib);
}

}  // namespace litespark
