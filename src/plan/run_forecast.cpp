// SPDX-License-Identifier: Apache-2.0
#include "plan/run_forecast.h"

#include "core/error.h"
#include "plan/tape_time.h"
#include "spec/run_program.h"
#include "spec/stage_layers.h"

namespace litespark {
namespace {

LayerRecompute recompute_of(Recompute recompute) {
  switch (recompute) {
    case Recompute::kNone: return LayerRecompute::kNone;
    case Recompute::kNormAct:
    case Recompute::kAttention: return LayerRecompute::kSelective;
    default: return LayerRecompute::kFull;
  }
}

StepSeconds tape_step(const ForecastQuestion& question, const Workload& workload) {
  StepSeconds step = program_seconds(question.program, question.config.train.accumulation, question.hardware);
  step.tokens_per_second = workload.step_tokens() / step.total;
  step.model_tflops = workload.shape.training_flops_per_token(static_cast<double>(workload.seq_len)) *
                      step.tokens_per_second / static_cast<double>(workload.layout.gpus()) / 1e12;
  return step;
}

/// Without saves a failure costs all that was done.
void add_failures(const RunConfig& config, RunForecast& forecast) {
  forecast.overhead_share = 0;
  const double run = 3600 * forecast.hours;
  if (!(run > 0)) return;
  const auto every = static_cast<double>(config.checkpoint.every);
  const double interval = every > 0 ? std::min(run, every * forecast.step.total) : run;
  const FailureModel model = failure_model(config, forecast);
  forecast.played = replay_failures(model, run, interval, static_cast<uint64_t>(config.seed));
  const std::optional<double> stretch = failure_stretch(model, interval);
  forecast.overhead_share = stretch ? std::optional(*stretch - 1) : std::nullopt;
}

}  // namespace

Workload workload_of_run(const RunConfig& config, const ModelConfig& model) {
  const ClusterSection& cluster = config.cluster;
  require_layers(model, cluster.pp, cluster.vpp, cluster.pp_layers);
  Workload workload;
  workload.shape = shape_of(model);
  workload.seq_len = config.data.seq_len;
  workload.micro_batch = config.train.micro_batch;
  workload.global_batch = config.sequences_per_step();
  workload.recompute = recompute_of(config.memory.recompute);
  const bool is_fp8 = config.precision.matmul != MatmulPrecision::kCompute;
  workload.precision = is_fp8 ? OperandPrecision::kFP8 : OperandPrecision::kBF16;
  workload.layout.dp = cluster.data_parallel();
  workload.layout.tp = cluster.tp;
  workload.layout.pp = cluster.pp;
  workload.layout.vpp = cluster.vpp;
  workload.layout.range_layers = cluster.pp_layers;
  workload.layout.cp = cluster.cp;
  workload.layout.ep = cluster.ep;
  check_workload(workload, "cluster.");
  return workload;
}

bool has_tapes(const ClusterSection& cluster) {
  return cluster.ep == 1;
}

ProgramOptions planned_options(const RunConfig& config) {
  ProgramOptions options = training_options(config);
  // Beside a layout without tapes stands the table of its data-parallel ranks, each with all weights.
  if (has_tapes(config.cluster)) return options;
  options.tensor_ranks = options.stages = options.chunks = 1;
  options.range_layers.clear();
  return options;
}

FailureModel failure_model(const RunConfig& config, const RunForecast& forecast) {
  FailureModel model;
  model.gpus = static_cast<double>(forecast.workload.layout.gpus());
  model.device_mtbf_hours = config.cost.device_mtbf_hours;
  model.restart_seconds = config.cost.restart_seconds;
  model.save_seconds =
      whole_save_seconds(forecast.workload.shape.parameters(),
                         model.gpus / static_cast<double>(std::max<int64_t>(1, forecast.hardware.devices_a_node)));
  return model;
}

RunForecast forecast_run(const ForecastQuestion& question) {
  question.hardware.validate();
  RunForecast out;
  out.hardware = question.hardware;
  out.workload = workload_of_run(question.config, question.model);
  out.has_tapes = has_tapes(question.config.cluster);
  out.goes_by_tape = out.has_tapes && question.config.cluster.pp == 1;
  if (out.has_tapes && question.program.options.world_ranks() != out.workload.layout.gpus()) {
    throw InternalError("plan", "the program is for other ranks", question.program.options.world_ranks(),
                        out.workload.layout.gpus());
  }
  if (out.goes_by_tape) {
    out.step = tape_step(question, out.workload);
  } else {
    out.step = step_seconds(out.workload, litespark_software(), question.hardware);
  }
  if (out.has_tapes) {
    out.memory_bytes = static_cast<double>(question.program.memory->total_bytes() + question.program.beyond_plan_bytes);
    out.memory_is_exact = question.program.sizes_are_exact;
  } else {
    out.memory_bytes = layout_memory(out.workload, litespark_software()).total();
  }
  out.tokens = out.workload.step_tokens() * static_cast<double>(question.config.train.steps);
  out.hours = out.step.total * static_cast<double>(question.config.train.steps) / 3600;
  out.energy = question.energy;
  out.energy.hours = out.hours;
  out.energy.gpus = static_cast<double>(out.workload.layout.gpus());
  out.energy.busy_share = busy_share(out.step);
  add_failures(question.config, out);
  out.energy.overhead_share = out.overhead_share.value_or(0);
  out.cost = energy_cost(out.energy, question.hardware);
  return out;
}

std::vector<ScalingPoint> weak_scaling(const RunForecast& forecast, int64_t most_gpus) {
  std::vector<ScalingPoint> points;
  Workload workload = forecast.workload;
  double level = 0;
  while (workload.layout.gpus() <= most_gpus) {
    const double rate = step_seconds(workload, litespark_software(), forecast.hardware).tokens_per_second;
    if (level == 0) level = forecast.step.tokens_per_second / rate;
    points.push_back({workload.layout.gpus(), level * rate});
    workload.layout.dp *= 2;
    workload.global_batch *= 2;
  }
  return points;
}

}  // namespace litespark
