// SPDX-License-Identifier: Apache-2.0
// samples.jsonl: what the model wrote at this step of the run, every sample once, whatever crashes and resumes lie
// between.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "io/file.h"

namespace litespark {

/// Text of the model's weights after `step`, a continuation of `prompt`.
struct TextSample {
  int64_t step = 0;
  std::string prompt;
  std::string text;
};

/// {"step", "prompt", "text"}; both texts are valid UTF-8.
std::string sample_json(const TextSample& sample);

class SampleLog {
 public:
  /// Continues a log after `steps_done`: samples of later steps are dropped. Throws IoError.
  SampleLog(const std::filesystem::path& path, int64_t steps_done);

  /// Appends and hands the line to the system; throws IoError when it does not take it.
  void add(const TextSample& sample);

 private:
  std::optional<AppendFile> file_;
};

}  // namespace litespark
