// SPDX-License-Identifier: Apache-2.0
#include "tuning_memory.h"

#include <iostream>

#include "core/error.h"
#include "io/tuning_file.h"

namespace litespark::cli {
namespace {

/// Only what is timed is worth keeping: other choices follow from a rule that a newer program may have mended.
TuningChoices timed_choices(const Backend& backend) {
  TuningChoices choices = backend.tuning();
  std::erase_if(choices, [](const auto& choice) { return !choice.first.starts_with("matmul"); });
  return choices;
}

}  // namespace

TuningMemory::TuningMemory(const RunConfig& config, Backend& backend) : search_(config.device.matmul_search) {
  const std::string& name = config.device.tuning_file;
  const bool is_default = name == "auto";
  if (name == "none" || (is_default && backend.device() == Device::kCpu)) return;
  path_ = is_default ? default_tuning_file() : std::filesystem::path(name);
  if (path_.empty()) return;
  try {
    backend.set_tuning(usable_choices(read_tuning_file(path_), search_));
  } catch (const Error& error) {
    if (!is_default) throw;
    std::cerr << "warning: " << error.what() << "; nothing is kept in it\n";
    path_.clear();
  }
}

void TuningMemory::keep(const Backend& backend) const {
  if (path_.empty()) return;
  const TuningChoices choices = timed_choices(backend);
  if (choices.empty()) return;
  try {
    add_to_tuning_file(path_, search_, choices);
  } catch (const Error& error) {
    std::cerr << "warning: device.tuning_file: " << error.what() << "\n";
  }
}

}  // namespace litespark::cli
