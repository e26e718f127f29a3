// SPDX-License-Identifier: Apache-2.0
#include "train/metrics_log.h"

#include <string_view>

#include "core/error.h"
#include "core/json_text.h"
#include "io/file.h"
#include "train/step_lines.h"

namespace litespark {
namespace {

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

MetricsLog::MetricsLog(const std::filesystem::path& path, int64_t steps_done) {
  const std::string kept = lines_up_to_step(path, steps_done);
  for (size_t start = 0; start < kept.size();) {
    const size_t end = kept.find('\n', start);
    const std::string_view line = std::string_view(kept).substr(start, end - start);
    tokens_before_ = integer_in_line(line, "tokens").value_or(tokens_before_);
    start = end + 1;
  }
  write_text_file(path, kept);
  file_.emplace(path);
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
  file_->append(line + "\n");
}

}  // namespace litespark
