// SPDX-License-Identifier: Apache-2.0
#include "model_folder.h"

#include "io/hf_config.h"
#include "io/sealed_folder.h"
#include "run_setup.h"
#include "train/checkpoint.h"
#include "train/checkpoint_store.h"

namespace litespark::cli {

namespace fs = std::filesystem;

namespace {

fs::path find_model_folder(const fs::path& path) {
  std::error_code error;
  if (fs::exists(path / "config.json", error)) return path;
  if (fs::is_directory(path / "checkpoints", error)) {
    const CheckpointStore store(path / "checkpoints");
    if (const auto newest = store.newest()) return store.path_of(*newest);
    throw ConfigError("MODEL", "the run has no checkpoint yet", path.string(), "a run that has saved");
  }
  throw ConfigError("MODEL", "is no model", path.string() + (error ? ": " + error.message() : ""),
                    "a folder with config.json, or a run folder with checkpoints");
}

/// Of a checkpoint, what generation and evaluation read. Other files may have been put beside it.
void check_model_files(const fs::path& folder) {
  if (!is_sealed(folder)) return;
  const SealedManifest manifest = check_manifest(folder);
  for (const auto& [name, file] : manifest.files) {
    if (name != kOptimizerFile) check_sealed_file(folder, manifest, name);
  }
}

}  // namespace

fs::path resolve_model_folder(const fs::path& path) {
  fs::path folder = find_model_folder(path);
  check_model_files(folder);
  return folder;
}

void ModelOptions::visit(Fields& fields) {
  fields.add({.path = "compute",
              .value = &compute,
              .help = "Precision of matmuls and attention.",
              .choices = {"fp32", "bf16"}});
  fields.add({.path = "device",
              .value = &device.kind,
              .help = "auto: cuda when this build and this machine have it, else cpu.",
              .choices = {"auto", "cpu", "cuda"}});
  fields.add({.path = "threads",
              .value = &device.threads,
              .help = "CPU threads; 0: as many as this process may use.",
              .range = between(0, 4096)});
}

LoadedModel::LoadedModel(const fs::path& folder, const ModelOptions& model_options, ProgramOptions options) {
  RunConfig config;
  config.device = model_options.device;
  backend_ = make_backend(config);
  options.compute = model_options.compute;
  options.has_training = false;
  executor_ = std::make_unique<Executor>(
      make_llama_program(read_hf_config(folder / "config.json"), options, backend_->sizes()), *backend_);
  load_weights(*executor_, folder);
}

}  // namespace litespark::cli
