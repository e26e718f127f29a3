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

SampleLog::SampleLog(const std::filesystem::path& path, int64_t steps_done) : name_(path.string()) {
  write_text_file(path, lines_up_to_step(path, steps_done));
  stream_.open(path, std::ios::app | std::ios::binary);
  if (!stream_) throw IoError(name_, "cannot be opened for writing");
}

void SampleLog::add(const TextSample& sample) {
  stream_ << sample_json(sample) << "\n";
  stream_.flush();
  if (!stream_) throw IoError(name_, "could not be written; is the disk full?");
}

}  // namespace litespark
