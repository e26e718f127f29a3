// SPDX-License-Identifier: Apache-2.0
#include "plan_forecast.h"

#include <algorithm>
#include <iostream>

#include "backend_choice.h"
#include "core/backend_sizes.h"
#include "core/quote.h"
#include "io/file.h"
#include "io/run_file.h"
#include "meter/carbon.h"
#include "plan/step_replay.h"
#include "report/forecast_page.h"

namespace litespark::cli {
namespace {

/// What the forecast needs to know of the place: the run file's own keys.
EnergyQuestion energy_of(const RunConfig& config) {
  const MeterSection& meter = config.meter;
  const GridIntensity grid = grid_intensity(meter.grid, meter.grid_intensity);
  EnergyQuestion energy;
  energy.pue = meter.pue;
  energy.grams_per_kwh = grid.grams_per_kwh;
  energy.intensity_source = grid.country.empty() ? grid.source : grid.country + ", " + grid.source;
  energy.price_per_kwh = meter.price_per_kwh.value_or(0);
  energy.market_grams_per_kwh = config.cost.market_intensity;
  energy.market_source = config.cost.market_source;
  energy.data_dollars = config.cost.data;
  energy.label_dollars = config.cost.labels;
  energy.lifetime_hours = config.cost.lifetime_years * 8760;
  return energy;
}

bool runs_on_cpu(const RunConfig& config) {
  return config.device.kind != DeviceKind::kCuda && !wants_cuda(config);
}

RunForecast forecast_on(const Hardware& hardware, const RunConfig& config, const ModelConfig& model,
                        const Program& program) {
  return forecast_run({.config = config,
                       .model = model,
                       .program = program,
                       .hardware = hardware_on_nodes(hardware, config.cluster.gpus, config.cluster.nodes),
                       .energy = energy_of(config)});
}

/// A rank's part of the CPU, which those of its machine share.
Hardware cpu_of_rank(const RunConfig& config) {
  return shared_hardware(hardware_named("cpu"), config.cluster.gpus / config.cluster.nodes);
}

}  // namespace

void ForecastRequest::visit(Fields& fields) {
  fields.add({.path = "hardware",
              .value = &hardware,
              .help =
                  "What to forecast for: a known name (a100, h100, h200, b200, ...) or a TOML file that describes a "
                  "machine. Default: cluster.hardware, or the CPU for a run on one."});
  fields.add(
      {.path = "search",
       .value = &search,
       .help = "Also try all layouts over the run's devices, with micro-batch and recompute, and say what fits."});
  fields.add({.path = "goal",
              .value = &goal,
              .help = "What --search looks for.",
              .choices = {"fastest", "cheapest", "greenest"}});
  fields.add({.path = "csv", .value = &csv, .help = "Print the forecast as one line under a head, for sweeps."});
  fields.add({.path = "page", .value = &page, .help = "Write the forecast to this file, as one HTML page."});
  fields.add({.path = "trace",
              .value = &trace,
              .help = "Play one step event by event and write it to this file, for chrome://tracing or Perfetto."});
  fields.add({.path = "spread",
              .value = &spread,
              .help = "With --trace: devices differ by exp(spread x a normal's size), drawn from the run's seed.",
              .range = between(0, 1)});
}

Hardware hardware_of(const std::string& name_or_file) {
  if (!name_or_file.ends_with(".toml")) return hardware_named(name_or_file);
  Hardware hardware;
  read_toml(read_toml_text(name_or_file), name_or_file, Fields::of(hardware));
  hardware.validate(name_or_file);
  hardware.name = plain_text(hardware.name);  // stands in tables and sentences
  return hardware;
}

void plan_for_named_device(const ForecastRequest& request, RunConfig& config) {
  if (request.hardware.empty() || config.device.kind != DeviceKind::kAuto) return;
  const std::optional<bool> is_gpu = hardware_of(request.hardware).is_gpu();
  if (!is_gpu) return;
  config.device.kind = *is_gpu ? DeviceKind::kCuda : DeviceKind::kCpu;
  config.validate();
}

namespace {

/// Of a plan the user may not know that it is one for the CPU.
void refuse_fp8_on_cpu(const RunConfig& config) {
  const bool in_matmuls = config.precision.matmul == MatmulPrecision::kFp8;
  if (!in_matmuls && config.precision.attention != AttentionPrecision::kFp8) return;
  const bool is_open = config.device.kind == DeviceKind::kAuto;
  throw ConfigError(in_matmuls ? "precision.matmul" : "precision.attention",
                    "fp8 needs a GPU that multiplies 8-bit floats",
                    is_open ? "device.kind = \"auto\", a CPU here" : "device.kind = \"cpu\"", "device.kind = \"cuda\"",
                    is_open ? "or name a GPU with --hardware" : "");
}

void check_fp8_matmuls(const RunConfig& config, const Hardware& hardware) {
  if (config.precision.matmul != MatmulPrecision::kFp8 || hardware.fp8_tflops > 0) return;
  throw ConfigError("precision.matmul", "fp8 needs a device that multiplies 8-bit floats",
                    "hardware " + hardware.name + " (fp8_tflops = 0)", "one whose fp8_tflops is above 0",
                    "or set precision.matmul = \"compute\"");
}

void check_fp8_attention(const RunConfig& config, const Hardware& hardware, const ModelConfig& model) {
  if (config.precision.attention != AttentionPrecision::kFp8) return;
  const std::optional<bool> has_kernel = hardware.runs_fp8_attention();
  if (!has_kernel) {
    std::cerr << "litespark: warning: compute_capability of " << hardware.name
              << " is not stated: precision.attention = \"fp8\" runs on 9.0 alone\n";
    return;
  }
  op::AttentionShape shape;
  shape.head_dim = static_cast<int>(model.head_dim);
  shape.has_alibi = model.positions == Positions::kAlibi;
  if (*has_kernel && gpu_has_fp8_attention(shape)) return;
  throw ConfigError("precision.attention", "fp8 needs a Hopper GPU (compute capability 9.0) and heads of 128",
                    "hardware " + hardware.name + " (compute capability " + hardware.compute_capability +
                        "), model.head_dim = " + std::to_string(model.head_dim),
                    "model.head_dim = 128 on such a GPU", "or set precision.attention = \"compute\"");
}

}  // namespace

void check_fp8(const ForecastRequest& request, const RunConfig& config, const ModelConfig& model) {
  if (runs_on_cpu(config)) return refuse_fp8_on_cpu(config);
  const Hardware hardware = hardware_of(request.hardware.empty() ? config.cluster.hardware : request.hardware);
  check_fp8_matmuls(config, hardware);
  check_fp8_attention(config, hardware, model);
}

RunForecast make_forecast(const ForecastRequest& request, const RunConfig& config, const ModelConfig& model,
                          const Program& program) {
  const bool is_own_cpu = request.hardware.empty() && runs_on_cpu(config);
  const std::string& name = request.hardware.empty() ? config.cluster.hardware : request.hardware;
  const Hardware hardware = is_own_cpu ? cpu_of_rank(config) : hardware_of(name);
  if (!(hardware.watts > 0)) throw ConfigError(name + ": watts", "is needed for energy", hardware.watts, "above 0");
  RunForecast forecast = forecast_on(hardware, config, model, program);
  // The program was made with a CPU's packed copies, whatever it is forecast for.
  if (runs_on_cpu(config) && !request.hardware.empty()) forecast.memory_is_exact = false;
  return forecast;
}

RunForecast forecast_here(const RunConfig& config, const ModelConfig& model, const Program& program,
                          const Backend& backend) {
  if (backend.device() == Device::kCpu) return forecast_on(cpu_of_rank(config), config, model, program);
  const Hardware hardware = hardware_in_text(backend.name());
  if (hardware.name.empty()) {
    throw ConfigError("cluster.hardware", "the planner does not know this device", backend.name(),
                      "a known one: see litespark plan --help");
  }
  return forecast_on(hardware, config, model, program);
}

SearchQuestion search_question(const ForecastRequest& request, const RunForecast& forecast) {
  SearchQuestion question;
  question.workload = forecast.workload;
  question.software = litespark_software();
  question.hardware = forecast.hardware;
  question.gpus = forecast.workload.layout.gpus();
  question.goal = request.goal;
  return question;
}

void write_files(const ForecastRequest& request, const RunForecast& forecast, const RunConfig& config) {
  constexpr int64_t kMostGpus = 16384;
  if (!request.page.empty()) {
    AtomicFile file(request.page);
    file.write(report::forecast_page(forecast, weak_scaling(forecast, kMostGpus), config.out + ": the plan"));
    file.commit();
  }
  if (request.trace.empty()) return;
  ReplayQuestion question;
  question.workload = forecast.workload;
  question.software = litespark_software();
  question.hardware = forecast.hardware;
  question.seed = static_cast<uint64_t>(config.seed);
  question.spread = request.spread;
  AtomicFile file(request.trace);
  file.write(chrome_trace(replay_step(question)));
  file.commit();
}

}  // namespace litespark::cli
