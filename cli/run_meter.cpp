// SPDX-License-Identifier: Apache-2.0
#include "run_meter.h"

#include <array>
#include <ctime>
#include <sstream>

#include "core/error.h"
#include "core/text_table.h"
#include "meter/cpu_model.h"
#include "meter/emissions.h"
#include "model/matmul_peak.h"
#include "spec/flops.h"

namespace litespark::cli {
namespace {

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

/// Of all devices together.
std::optional<PeakRate> times(std::optional<PeakRate> peak, int64_t num_devices) {
  if (!peak || num_devices == 1) return peak;
  peak->flops_per_second *= static_cast<double>(num_devices);
  peak->source += ", times " + std::to_string(num_devices) + " devices";
  return peak;
}

/// The record of energy.jsonl and the checkpoint overlap; the one that saw more time has all that the other has.
EnergyAccount further(const RunTotals& totals, const EnergyAccount& recorded) {
  if (recorded.seconds() >= totals.metered_seconds + totals.unmetered_seconds) return recorded;
  return {.joules = totals.joules,
          .metered_seconds = totals.metered_seconds,
          .unmetered_seconds = totals.unmetered_seconds,
          .method = recorded.method};
}

/// What the other ranks tell of devices that this one does not see; their sensors are of the same kinds.
ToldEnergy* add_other_ranks(Sensors& sensors, bool is_gpu) {
  auto others = std::make_unique<ToldEnergy>("other ranks", is_gpu ? EnergyPart::kGpu : EnergyPart::kCpu,
                                             is_gpu ? EnergyMethod::kCounter : EnergyMethod::kEstimated);
  ToldEnergy* const told = others.get();
  sensors.push_back(std::move(others));
  return told;
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
      num_devices_(config.cluster.gpus),
      num_cores_(cpu_model_of_this_machine().num_cores),
      memory_gib_(cpu_model_of_this_machine().memory_gib),
      flops_per_token_(training_flops_per_token(executor.program().config, config.data.seq_len)),
      flops_text_(training_flops_text(executor.program().config, config.data.seq_len)),
      peak_(times(peak_of(config, executor), num_devices_)),
      log_(out_ / "energy.jsonl"),
      emissions_(out_ / "emissions.csv"),
      total_(further(totals, log_.recorded())),
      sensors_(sensors_of_rank(config, is_gpu_, 0)),
      others_(executor.communicator() == nullptr ? nullptr : add_other_ranks(sensors_, is_gpu_)),
      meter_(std::move(sensors_)) {}

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
  StepMeasurements result{.watts = power_.add(interval), .joules = interval.joules()};
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
  emissions_.append((emissions_.size_before() == 0 ? emissions_header() : std::string()) +
                    emissions_line({.timestamp = local_time(),
                                    .project_name = "litespark",
                                    .run_id = out_.filename().string(),
                                    .version = LITESPARK_VERSION,
                                    .energy = process_,
                                    .grid = grid_,
                                    .pue = settings_.pue,
                                    .cpu_count = num_cores_,
                                    .gpu_count = is_gpu_ ? static_cast<int>(num_devices_) : 0,
                                    .gpu_model = is_gpu_ ? device_name_ : "",
                                    .ram_gib = memory_gib_}));
}

}  // namespace litespark::cli
