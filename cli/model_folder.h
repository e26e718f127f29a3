// SPDX-License-Identifier: Apache-2.0
// A model that a command works with: any Hugging Face folder, a checkpoint, or a run folder, which stands for its
// newest checkpoint.
#pragma once

#include <filesystem>
#include <memory>

#include "command.h"
#include "model/weights.h"
#include "spec/run_config.h"

namespace litespark::cli {

/// The folder that holds config.json. Throws ConfigError when there is none.
std::filesystem::path resolve_model_folder(const std::filesystem::path& path);

/// Options of every command that loads a model.
struct ModelOptions {
  DeviceSection device;
  DType compute = DType::kF32;

  void visit(Fields& fields);
};

/// A model on its backend, weights loaded.
class LoadedModel {
 public:
  /// `options` without compute: it comes from `model_options`.
  LoadedModel(const std::filesystem::path& folder, const ModelOptions& model_options, ProgramOptions options);

  Executor& executor() { return *executor_; }

 private:
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Executor> executor_;
};

}  // namespace litespark::cli
