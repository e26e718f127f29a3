// SPDX-License-Identifier: Apache-2.0
#include "run_setup.h"

#include <iostream>

#include "core/text_table.h"
#include "io/hf_config.h"
#include "plan/estimated_sizes.h"
#include "plan/memory_fit.h"

#ifdef LITESPARK_HAS_CPU
#include "ops/cpu/cpu_backend.h"
#endif
#ifdef LITESPARK_HAS_CUDA
#include "ops/cuda/cuda_backend.h"
#endif

namespace litespark::cli {
namespace {

#ifdef LITESPARK_HAS_CPU
constexpr bool kHasCpu = true;
std::unique_ptr<Backend> make_cpu(const RunConfig& config) {
  return make_cpu_backend(
      {.threads = static_cast<int>(config.device.threads), .max_isa = parse_cpu_isa(config.device.isa)});
}
#else
constexpr bool kHasCpu = false;
std::unique_ptr<Backend> make_cpu(const RunConfig&) {
  throw ConfigError("device.kind", "this build has no CPU backend", "cpu", "cuda");
}
#endif

#ifdef LITESPARK_HAS_CUDA
constexpr bool kHasCuda = true;
int num_gpus() {
  return cuda_device_count();
}
std::unique_ptr<Backend> make_cuda(const RunConfig& config) {
  return make_cuda_backend({.deterministic = config.deterministic});
}
#else
constexpr bool kHasCuda = false;
int num_gpus() {
  return 0;
}
std::unique_ptr<Backend> make_cuda(const RunConfig&) {
  throw ConfigError("device.kind", "this build has no CUDA backend", "cuda", "cpu",
                    "build with -DLITESPARK_CUDA=ON, or set device.kind = \"cpu\"");
}
#endif

bool wants_cuda(const RunConfig& config) {
  if (config.device.kind != DeviceKind::kAuto) return config.device.kind == DeviceKind::kCuda;
  return num_gpus() > 0 || !kHasCpu;
}

}  // namespace

std::string linked_backends() {
  return kHasCpu && kHasCuda ? "cpu, cuda" : kHasCuda ? "cuda" : "cpu";
}

RunConfig load_run(const CommandLine& line) {
  RunConfig config = read_run_file(line.positionals.at(0), line.overrides);
  for (const std::string& setting : config.ignored_settings()) {
    std::cerr << "litespark: warning: no effect: " << setting << "\n";
  }
  return config;
}

CommandLine with_gpus(CommandLine line, const std::optional<int64_t>& gpus) {
  if (gpus) line.overrides.push_back({"cluster.gpus", std::to_string(*gpus)});
  return line;
}

ModelConfig model_of(const RunConfig& config) {
  if (config.model.init == ModelInit::kScratch) return scratch_model_config(config);
  ModelConfig shape = read_hf_config(std::filesystem::path(config.model.path) / "config.json");
  if (config.data.seq_len > shape.max_position_embeddings) {
    throw ConfigError("data.seq_len", "is longer than the model's context", config.data.seq_len,
                      "at most the folder's max_position_embeddings, " + std::to_string(shape.max_position_embeddings));
  }
  return shape;
}

std::unique_ptr<Backend> make_backend(const RunConfig& config) {
  return wants_cuda(config) ? make_cuda(config) : make_cpu(config);
}

RunConfig fit_into_memory(const RunConfig& config, const ModelConfig& model, const BackendSizes& sizes,
                          const std::optional<int64_t>& free_bytes) {
  const std::optional<int64_t> budget = config.memory.budget_bytes();
  if (!budget && !free_bytes) return config;
  const MemoryQuestion question{config, model, sizes, budget ? *budget : *free_bytes};
  const int64_t planned = planned_bytes(question);
  if (planned <= question.budget_bytes) return config;
  const std::optional<FittingRun> fitting = budget ? std::nullopt : fit_by_recompute(question);
  if (!fitting) {
    throw ConfigError("memory.budget", "the run does not fit", bytes_text(planned) + " planned",
                      "at most " + bytes_text(question.budget_bytes) + (budget ? "" : ", what is free"),
                      fitting_advice(question));
  }
  RunConfig changed = fitting->config;
  std::cout << "memory.recompute = " << value_text(*Fields::of(changed).find("memory.recompute")) << ": without it "
            << bytes_text(planned) << " would be needed, " << bytes_text(question.budget_bytes) << " are free\n";
  return changed;
}

std::string run_headline(const RunConfig& config, const Program& program) {
  const ModelConfig& shape = program.config;
  RunConfig copy = config;
  const Fields fields = Fields::of(copy);
  const auto value = [&](const char* path) {
    const std::string text = value_text(*fields.find(path));
    return text.substr(1, text.size() - 2);
  };
  return family_name(shape.family) + ", " + count_text(program.params.num_parameters) + " parameters (" +
         std::to_string(shape.num_hidden_layers) + " x " + std::to_string(shape.hidden_size) + "); " +
         std::to_string(config.train.micro_batch) + " x " + std::to_string(config.data.seq_len) +
         " tokens at a time, " + count_text(config.tokens_per_step()) + " a step; " + value("precision.compute") +
         ", recompute " + value("memory.recompute") + "\n";
}

PlannedSizes::PlannedSizes(const RunConfig& config) {
  const bool is_for_gpu = config.device.kind == DeviceKind::kCuda || !kHasCpu;
  if (is_for_gpu && num_gpus() == 0) {
    estimate_ = std::make_unique<EstimatedGpuSizes>(config.deterministic);
  } else {
    backend_ = make_backend(config);
  }
}

}  // namespace litespark::cli
