// SPDX-License-Identifier: Apache-2.0
#include "train/checkpoint.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <random>
#include <span>

#include "core/error.h"
#include "core/hex_text.h"
#include "io/file.h"
#include "io/hf_folder.h"
#include "io/safetensors_writer.h"
#include "io/sealed_folder.h"
#include "model/weights.h"
#include "spec/param_cut.h"
#include "train/checkpoint_state.h"

namespace litespark {
namespace {

namespace fs = std::filesystem;

constexpr const char* kStateFile = "state.json";
constexpr const char* kRunFile = "run.toml";
/// state.json, config.json, headers, manifest: generous.
constexpr int64_t kSmallFilesBytes = int64_t{1} << 20;
constexpr int64_t kMaxStateBytes = int64_t{8} << 20;

std::string new_save_id() {
  // Entropy beside the clock: two saves of two processes within one tick must not meet.
  const auto ticks = static_cast<uint64_t>(std::chrono::system_clock::now().time_since_epoch().count());
  std::random_device entropy;
  return hex_text(ticks ^ (uint64_t{entropy()} << 32) ^ entropy());
}

template <class Flat>
auto param_values(Flat& flat, const ParamSpec& param) {
  return std::span(flat).subspan(static_cast<size_t>(param.flat_offset),
                                 static_cast<size_t>(param.shape.num_elements()));
}

void write_optimizer(const fs::path& path, const TrainingSnapshot& snapshot, const CheckpointContext& context) {
  std::vector<SafetensorsWriter::Declaration> declared;
  std::map<std::string, std::span<const float>> values;
  const auto add = [&](const ParamSpec& param, const char* what, const std::vector<float>& flat) {
    declared.push_back({.name = param.name + what, .dtype = SafetensorsDType::kF32, .shape = extents(param.shape)});
    values[declared.back().name] = param_values(flat, param);
  };
  for (const ParamSpec& param : context.params.params) {
    add(param, ".first_moment", snapshot.first_moment);
    add(param, ".second_moment", snapshot.second_moment);
    if (context.folder_dtype != DType::kF32) add(param, ".master", snapshot.master);
  }
  SafetensorsWriter writer(path, std::move(declared));
  for (const SafetensorsTensor& tensor : writer.order()) writer.write_f32(tensor.name, values.at(tensor.name));
  writer.commit();
}

std::string residual_name(const ParamSpec& param, size_t rank) {
  return param.name + ".residual." + std::to_string(rank);
}

void write_residuals(const fs::path& path, const TrainingSnapshot& snapshot, const ParamTable& params) {
  std::vector<SafetensorsWriter::Declaration> declared;
  std::map<std::string, std::span<const float>> values;
  for (const ParamSpec& param : params.params) {
    for (size_t rank = 0; rank < snapshot.residuals.size(); ++rank) {
      const std::string name = residual_name(param, rank);
      declared.push_back({.name = name, .dtype = SafetensorsDType::kF32, .shape = extents(param.shape)});
      values[name] = param_values(snapshot.residuals[rank], param);
    }
  }
  SafetensorsWriter writer(path, std::move(declared));
  for (const SafetensorsTensor& tensor : writer.order()) writer.write_f32(tensor.name, values.at(tensor.name));
  writer.commit();
}

void write_model(const fs::path& folder, const TrainingSnapshot& snapshot, const CheckpointContext& context) {
  const ProvidePart provide = [&](const ParamSpec& param, const ParamPart& part, const ConsumeValues& consume) {
    const std::span<const float> values = param_values(snapshot.master, param);
    const auto count = static_cast<size_t>(part.shape.num_elements());
    const size_t row_elements = count / static_cast<size_t>(part.shape[0]);
    consume(values.subspan(static_cast<size_t>(part.first_row) * row_elements, count));
  };
  write_hf_folder(folder, context.config, context.params, provide,
                  {.dtype = context.folder_dtype, .tokenizer_folder = context.tokenizer_folder});
}

std::vector<float> read_values(const SafetensorsFile& file, const ParamSpec& param, const std::string& name) {
  if (file.info(name).shape != extents(param.shape)) {
    throw DataError(file.file_name() + ": " + name, "has the wrong shape for this model",
                    file.info(name).num_elements(), param.shape.to_string());
  }
  std::vector<float> values(static_cast<size_t>(param.shape.num_elements()));
  file.read_f32(name, values);
  return values;
}

void read_optimizer(const fs::path& path, DType folder_dtype, Executor& executor) {
  const SafetensorsFile file = SafetensorsFile::open(path, Symlinks::kRefuse);
  const Program& program = executor.program();
  for (size_t p = 0; p < program.whole_params.params.size(); ++p) {
    const ParamSpec& param = program.whole_params.params[p];
    const std::optional<int64_t> held = program.held_param(static_cast<int64_t>(p));
    if (!held) continue;
    const ParamSpec& stored = program.params.params[static_cast<size_t>(*held)];
    const ParamShard& shard = program.shards[static_cast<size_t>(*held)];
    const auto restore = [&](TensorId moment, const char* name) {
      if (shard.count == 0) return;
      const std::vector<float> whole = read_values(file, param, param.name + name);
      std::vector<float> values(static_cast<size_t>(stored.shape.num_elements()));
      cut_values(stored, whole, values);
      write_floats(executor, moment,
                   std::span(values).subspan(static_cast<size_t>(shard.first), static_cast<size_t>(shard.count)));
    };
    restore(shard.tensors.first_moment, ".first_moment");
    restore(shard.tensors.second_moment, ".second_moment");
    if (folder_dtype == DType::kF32) continue;
    set_parameter(executor, static_cast<int64_t>(p), read_values(file, param, param.name + ".master"));
  }
}

/// What this data rank begins with of a parameter's residuals: its own of as many ranks as before, else (or where it
/// has no place for it) the first rank the sum of all.
std::vector<float> residual_of_rank(const SafetensorsFile& file, const ParamSpec& param, const ProgramOptions& options,
                                    bool has_place) {
  std::vector<double> sum(static_cast<size_t>(param.shape.num_elements()));
  size_t ranks = 0;
  while (file.find(residual_name(param, ranks)) != nullptr) ++ranks;
  if (has_place && static_cast<int64_t>(ranks) == options.data_ranks) {
    return read_values(file, param, residual_name(param, static_cast<size_t>(options.data_rank)));
  }
  for (size_t rank = 0; rank < ranks && options.data_rank == 0; ++rank) {
    const std::vector<float> values = read_values(file, param, residual_name(param, rank));
    for (size_t i = 0; i < values.size(); ++i) sum[i] += double{values[i]};
  }
  return {sum.begin(), sum.end()};
}

/// Returns the norm of what has no place here.
double read_residuals(const fs::path& path, Executor& executor) {
  const SafetensorsFile file = SafetensorsFile::open(path, Symlinks::kRefuse);
  const Program& program = executor.program();
  double lost = 0;
  for (size_t p = 0; p < program.whole_params.params.size(); ++p) {
    const ParamSpec& param = program.whole_params.params[p];
    const std::optional<int64_t> held = program.held_param(static_cast<int64_t>(p));
    if (!held) continue;
    const auto index = static_cast<size_t>(*held);
    const TensorId residual = program.param_tensors[index].residual;
    const std::vector<float> whole = residual_of_rank(file, param, program.options, residual.has_value());
    if (!residual.has_value()) {
      for (const float value : whole) lost += double{value} * double{value};
      continue;
    }
    const ParamSpec& stored = program.params.params[index];
    std::vector<float> values(static_cast<size_t>(stored.shape.num_elements()));
    cut_values(stored, whole, values);
    write_floats(executor, residual, values);
  }
  return std::sqrt(lost);
}

CheckpointState read_state(const fs::path& folder, const SealedManifest& manifest) {
  return parse_checkpoint_state(read_sealed_text(folder, manifest, kStateFile, kMaxStateBytes),
                                (folder / kStateFile).string());
}

}  // namespace

void write_checkpoint(const fs::path& destination, const TrainingSnapshot& snapshot, const CheckpointContext& context) {
  SealedFolderWriter folder(destination, new_save_id());
  write_model(folder.path(), snapshot, context);
  write_optimizer(folder.path() / kOptimizerFile, snapshot, context);
  if (!snapshot.residuals.empty()) write_residuals(folder.path() / kResidualFile, snapshot, context.params);
  write_text_file(folder.path() / kRunFile, context.run_toml);
  write_text_file(folder.path() / kStateFile, checkpoint_state_json({.progress = snapshot.progress,
                                                                     .totals = snapshot.totals,
                                                                     .identity = context.identity,
                                                                     .tuning = context.tuning,
                                                                     .folder_dtype = context.folder_dtype}));
  folder.seal();
}

int64_t num_residuals(const Program& program) {
  return program.residual.has_value() ? program.options.data_ranks : 0;
}

int64_t checkpoint_bytes(const ParamTable& params, DType folder_dtype, int64_t residuals) {
  const int64_t beside = (folder_dtype == DType::kF32 ? 8 : 12) + residuals * dtype_bytes(DType::kF32);
  return params.num_parameters * (dtype_bytes(folder_dtype) + beside) + kSmallFilesBytes;
}

std::map<std::string, std::string> read_checkpoint_tuning(const fs::path& folder) {
  return read_state(folder, check_seal(folder)).tuning;
}

ResumedState read_checkpoint(const fs::path& folder, const CheckpointContext& context, Executor& executor) {
  const SealedManifest manifest = check_sealed_folder(folder);
  const CheckpointState state = read_state(folder, manifest);
  require_same_run(state.identity, context.identity, folder.string());
  load_weights(executor, folder);
  read_optimizer(folder / kOptimizerFile, state.folder_dtype, executor);
  const bool has_residuals = manifest.files.contains(kResidualFile);
  const double lost = has_residuals ? read_residuals(folder / kResidualFile, executor) : 0;
  pack_weights(executor);
  return {.progress = state.progress, .totals = state.totals, .tuning = state.tuning, .lost_residual = lost};
}

}  // namespace litespark
