// SPDX-License-Identifier: Apache-2.0
#include "train/metrics_log.h"

#include <charconv>
#include <string_view>

#include "core/error.h"
#include "core/json_text.h"
#include "io/file.h"

namespace litespark {
namespace {

/// A year of steps a second is 10 GiB of lines; a log beyond this is not one of ours.
constexpr int64_t kLargestLogBytes = int64_t{16} << 30;

/// The number after `"key": ` in a line of this log; nullopt in a torn one.
std::optional<int64_t> integer_in(std::string_view line, std::string_view key) {
  const std::string opening = "\"" + std::string(key) + "\": ";
  const size_t place = line.find(opening);
  if (place == std::string_view::npos || !line.ends_with('}')) return std::nullopt;
  int64_t number = 0;
  const char* first = line.data() + place + opening.size();
  if (std::from_chars(first, line.data() + line.size(), number).ec != std::errc()) return std::nullopt;
  return number;
}

std::string number_or_null(const std::optional<double>& value) {
  return value ? json_number(*value) : "null";
}

}  // namespace

std::string step_json(const StepRecord& record, int64_t step_tokens, const StepMeasurements& measurements) {
  const double tokens_per_second = static_cast<double>(step_tokens) / record.seconds;
  return "{\"step\": " + std::to_string(record.step) + ", \"tokens\": " + std::to_string(record.tokens) +
         ", \"loss\": " + json_number(record.loss) + ", \"grad_norm\": " + json_number(record.grad_norm) +
         ", \"lr\": " + json_number(record.lr) + ", \"tokens_per_second\": " + json_number(tokens_per_second) +
         ", \"mfu\": " + number_or_null(measurements.mfu) + ", \"watts\": " + number_or_null(measurements.watts) +
         ", \"joules\": " + number_or_null(measurements.joules) +
         ", \"co2_grams\": " + number_or_null(measurements.co2_grams) +
         ", \"data_wait_seconds\": " + json_number(record.data_wait_seconds) +
         ", \"skipped\": " + (record.skipped ? "true" : "false") + "}";
}

MetricsLog::MetricsLog(const std::filesystem::path& path, int64_t steps_done) : name_(path.string()) {
  std::string kept;
  if (std::filesystem::exists(path)) {
    const std::string text = read_text_file(path, kLargestLogBytes);
    for (size_t start = 0; start < text.size();) {
      const size_t end = std::min(text.find('\n', start), text.size());
      const std::string_view line = std::string_view(text).substr(start, end - start);
      const auto step = integer_in(line, "step");
      if (step && *step <= steps_done) {
        kept.append(line).append("\n");
        tokens_before_ = integer_in(line, "tokens").value_or(tokens_before_);
      }
      start = end + 1;
    }
  }
  write_text_file(path, kept);
  stream_.open(path, std::ios::app | std::ios::binary);
  if (!stream_) throw IoError(name_, "cannot be opened for writing");
}

void MetricsLog::add(const StepRecord& record, const StepMeasurements& measurements) {
  write(step_json(record, record.tokens - tokens_before_, measurements));
  tokens_before_ = record.tokens;
}

void MetricsLog::add_eval(int64_t step, const EvalResult& result) {
  write("{\"step\": " + std::to_string(step) + ", \"eval_loss\": " + json_number(result.loss) + ", \"eval_tokens\": " +
        std::to_string(result.supervised_tokens) + ", \"eval_seconds\": " + json_number(result.seconds) + "}");
}

void MetricsLog::add_save(int64_t step, double seconds) {
  write("{\"step\": " + std::to_string(step) + ", \"checkpoint_seconds\": " + json_number(seconds) + "}");
}

void MetricsLog::add_warning(int64_t step, const std::string& text) {
  write("{\"step\": " + std::to_string(step) + ", \"warning\": " + json_string(text) + "}");
}

void MetricsLog::write(const std::string& line) {
  stream_ << line << "\n";
  stream_.flush();
  if (!stream_) throw IoError(name_, "could not be written; is the disk full?");
}

}  // namespace litespark
