// SPDX-License-Identifier: Apache-2.0
#include "run_meter.h"

#include <algorithm>
#include <array>
#include <ctime>
#include <sstream>

#include "core/error.h"
#include "core/text_table.h"
#include "meter/cpu_model.h"
#include "meter/emissions.h"
#include "meter/nvml.h"
#include "meter/rapl.h"
#include "model/matmul_peak.h"
#include "spec/flops.h"

namespace litespark::cli {
namespace {

using Sensors = std::vector<std::unique_ptr<EnergySensor>>;

CpuModel cpu_model(const MeterSection& settings) {
  CpuModel model = cpu_model_of_this_machine();
  model.idle_watts = settings.cpu_idle_watts.value_or(model.idle_watts);
  model.watts_per_busy_core = settings.cpu_watts_per_core.value_or(model.watts_per_busy_core);
  model.watts_per_gib = settings.watts_per_gib.value_or(model.watts_per_gib);
  return model;
}

/// The boards that the run computes on: the first `count` that it sees.
void add_gpu_sensors(Sensors& sensors, int64_t count) {
  const auto driver = open_nvml();
  std::optional<std::vector<std::string>> uuids;
  if (driver) uuids = visible_gpus_here(*driver);
  if (!uuids || static_cast<int64_t>(uuids->size()) < count) {
    sensors.push_back(make_silent_sensor("gpu", EnergyPart::kGpu));
    return;
  }
  uuids->resize(static_cast<size_t>(count));
  for (auto& sensor : make_gpu_sensors(driver, *uuids)) sensors.push_back(std::move(sensor));
}

Sensors sensors_of(const RunConfig& config, bool is_gpu) {
  Sensors sensors = find_rapl_sensors();
  const auto has = [&](EnergyPart part) {
    return std::any_of(sensors.begin(), sensors.end(), [part](const auto& sensor) { return sensor->part() == part; });
  };
  const CpuModel model = cpu_model(config.meter);
  if (!has(EnergyPart::kCpu)) sensors.push_back(make_cpu_estimate(model));
  if (!has(EnergyPart::kRam)) sensors.push_back(make_memory_estimate(model));
  if (is_gpu) add_gpu_sensors(sensors, config.cluster.gpus);
  return sensors;
}

std::optional<PeakRate> peak_of(const RunConfig& config, Executor& executor) {
  if (config.meter.peak_tflops) {
    return PeakRate{.flops_per_second = *config.meter.peak_tflops * 1e12, .source = "meter.peak_tflops"};
  }
  const Backend& backend = executor.backend();
  if (backend.device() == Device::kCuda) return gpu_peak(backend.name(), config.precision.compute);
  const MatmulPeak peak = measure_matmul_peak(executor);
  return PeakRate{.flops_per_second = peak.flops_per_second,
                  .source = "measured here: the model's " + std::to_string(peak.num_shapes) + " forward " +
                            std::string(dtype_name(config.precision.compute)) +
                            " matmuls alone, median times weighted by FLOPs"};
}

/// The record of energy.jsonl and the checkpoint overlap; the one that saw more time has all that the other has.
EnergyAccount further(const RunTotals& totals, const EnergyAccount& recorded) {
  if (recorded.seconds() >= totals.metered_seconds + totals.unmetered_seconds) return recorded;
  return {.joules = totals.joules,
          .metered_seconds = totals.metered_seconds,
          .unmetered_seconds = totals.unmetered_seconds,
          .method = recorded.method};
}

std::string rounded(double value) {
  std::ostringstream stream;
  stream.precision(4);
  stream << value;
  return stream.str();
}

std::string local_time() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  std::array<char, 32> text{};
  localtime_r(&now, &parts);
  return {text.data(), std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%S", &parts)};
}

}  // namespace

RunMeter::RunMeter(const RunConfig& config, Executor& executor, const RunTotals& totals)
    : settings_(config.meter),
      out_(config.out),
      log_every_(config.train.log_every),
      grid_(grid_intensity(config.meter.grid, config.meter.grid_intensity)),
      device_name_(executor.backend().name()),
      is_gpu_(executor.backend().device() == Device::kCuda),
      num_cores_(cpu_model_of_this_machine().num_cores),
      memory_gib_(cpu_model_of_this_machine().memory_gib),
      flops_per_token_(training_flops_per_token(executor.program().config, config.data.seq_len)),
      flops_text_(training_flops_text(executor.program().config, config.data.seq_len)),
      peak_(peak_of(config, executor)),
      log_(out_ / "energy.jsonl"),
      emissions_(out_ / "emissions.csv"),
      total_(further(totals, log_.recorded())),
      meter_(sensors_of(config, is_gpu_)) {}

std::string RunMeter::headline() const {
  const std::string peak = peak_ ? fixed_text(peak_->flops_per_second / 1e12, 3) + " TFLOP/s (" + peak_->source + ")"
                                 : "unknown (set meter.peak_tflops), so MFU is unavailable";
  std::string devices;
  for (const std::string& device : meter_.devices()) devices.append(devices.empty() ? "" : ", ").append(device);
  return "MFU: FLOPs a token = " + flops_text_ + " = " + rounded(flops_per_token_ / 1e6) +
         " M; causal attention counts half, recompute not at all; peak " + peak + "\nenergy: " + devices + "\n" +
         "carbon: " + grid_.region + " " + rounded(grid_.grams_per_kwh) + " g CO2e/kWh (" + grid_.source + "), PUE " +
         rounded(settings_.pue) + "\n";
}

const EnergyInterval& RunMeter::read() {
  const EnergyInterval& interval = meter_.read();
  for (EnergyAccount* account : {&total_, &process_, &stretch_}) account->add(interval);
  return interval;
}

void RunMeter::flush(int64_t step) {
  log_.add(step, stretch_);
  stretch_.restart();
}

StepMeasurements RunMeter::measure(const StepRecord& record, int64_t step_tokens) {
  const EnergyInterval& interval = read();
  StepMeasurements result{.watts = interval.watts(), .joules = interval.joules()};
  result.mfu = model_flops_utilization(flops_per_token_ * static_cast<double>(step_tokens), record.seconds, peak_);
  if (result.joules) {
    result.co2_grams =
        footprint(*result.joules, {.grams_per_kwh = grid_.grams_per_kwh, .pue = settings_.pue}).building_grams;
  }
  if (record.step % log_every_ == 0) flush(record.step);
  return result;
}

void RunMeter::update(RunTotals& totals) const {
  totals.joules = total_.joules;
  totals.metered_seconds = total_.metered_seconds;
  totals.unmetered_seconds = total_.unmetered_seconds;
}

std::string RunMeter::finish(int64_t steps_done, int64_t tokens_done) {
  (void)read();
  flush(steps_done);
  write_emissions();
  if (!total_.is_known()) return "energy: unavailable\ncarbon: unavailable\nmoney: unavailable";
  const Footprint result =
      footprint(total_.joules,
                {.grams_per_kwh = grid_.grams_per_kwh, .pue = settings_.pue, .price_per_kwh = settings_.price_per_kwh});
  const std::string method(method_name(total_.overall_method()));
  // Time without a figure is taken to use as much as the rest.
  const double whole_joules = *total_.mean_watts() * total_.seconds();
  std::string text = "energy: " + rounded(total_.joules) + " J in " + fixed_text(total_.metered_seconds) + " s, mean " +
                     rounded(*total_.mean_watts()) + " W";
  if (tokens_done > 0) {
    text += ", " + rounded(1000.0 * whole_joules / static_cast<double>(tokens_done)) + " J per 1,000 tokens";
  }
  text += " (" + method + ")";
  if (total_.unmetered_seconds > 0) text += "; unknown for " + fixed_text(total_.unmetered_seconds) + " s more";
  text += "\ncarbon: " + rounded(result.building_grams) + " g CO2e (" + method + "; " + rounded(result.machine_grams) +
          " g without PUE " + rounded(settings_.pue) + "; " + grid_.region + " " + rounded(grid_.grams_per_kwh) +
          " g CO2e/kWh, " + grid_.source + ")";
  return text + "\nmoney: " +
         (result.cost ? rounded(*result.cost) + " at " + rounded(*settings_.price_per_kwh) + " per kWh"
                      : "unavailable (meter.price_per_kwh)");
}

void RunMeter::write_emissions() {
  const auto num_gpus = std::count_if(process_.devices.begin(), process_.devices.end(),
                                      [](const auto& device) { return device.second.part == EnergyPart::kGpu; });
  emissions_.append((emissions_.size_before() == 0 ? emissions_header() : std::string()) +
                    emissions_line({.timestamp = local_time(),
                                    .project_name = "litespark",
                                    .run_id = out_.filename().string(),
                                    .version = LITESPARK_VERSION,
                                    .energy = process_,
                                    .grid = grid_,
                                    .pue = settings_.pue,
                                    .cpu_count = num_cores_,
                                    .gpu_count = static_cast<int>(num_gpus),
                                    .gpu_model = is_gpu_ ? device_name_ : "",
                                    .ram_gib = memory_gib_}));
}

}  // namespace litespark::cli
