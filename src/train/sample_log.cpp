// SPDX-License-Identifier: Apache-2.0
#include "train/sample_log.h"

#include "core/error.h"
#include "core/json_text.h"
#include "io/file.h"
#include "train/step_lines.h"

namespace litespark {

std::string sample_json(const TextSample& sample) {
  // The step comes first: a reader of the line finds it before anything that the model wrote.
  return "{\"step\": " + std::to_string(sample.step) + ", \"prompt\": " + json_string(sample.prompt) +
         ", \"text\": " + json_string(sample.text) + "}";
}

SampleLog::SampleLog(const std::filesystem::path& path, int64_t steps_done) {
  write_text_file(path, lines_up_to_step(path, steps_done));
  file_.emplace(path);
}

void SampleLog::add(const TextSample& sample) {
  file_->append(sample_json(sample) + "\n");
}

}  // namespace litespark
