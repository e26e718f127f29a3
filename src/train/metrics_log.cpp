// SPDX-License-Identifier: Apache-2.0
#include "train/metrics_log.h"

#include <string_view>

#include "core/error.h"
#include "core/json_text.h"
#include "io/file.h"
#include "train/rank_pace.h"
#include "train/step_lines.h"

namespace litespark {
namespace {

/// One `"key": value`; what is absent is null.
class StepLine {
 public:
  explicit StepLine(std::string& out) : out_(out) {}

  StepLine& integer(std::string_view key, int64_t value) {
    append_json_number(named(key), value);
    return *this;
  }
  StepLine& number(std::string_view key, const std::optional<double>& value) {
    if (value) {
      append_json_number(named(key), *value);
    } else {
      named(key) += "null";
    }
    return *this;
  }
  StepLine& flag(std::string_view key, bool value) {
    named(key) += value ? "true" : "false";
    return *this;
  }
  void end() { out_ += '}'; }

 private:
  std::string& named(std::string_view key) {
    out_.append(is_first_ ? "{\"" : ", \"").append(key).append("\": ");
    is_first_ = false;
    return out_;
  }

  std::string& out_;
  bool is_first_ = true;
};

}  // namespace

std::string step_json(const StepRecord& record, int64_t step_tokens, const StepMeasurements& measurements) {
  std::string out;
  append_step_json(out, record, step_tokens, measurements);
  return out;
}

void append_step_json(std::string& out, const StepRecord& record, int64_t step_tokens,
                      const StepMeasurements& measurements) {
  StepLine line(out);
  line.integer("step", record.step)
      .integer("tokens", record.tokens)
      .number("loss", record.loss)
      .number("grad_norm", record.grad_norm)
      .number("lr", record.lr)
      .number("tokens_per_second", static_cast<double>(step_tokens) / record.seconds)
      .number("mfu", measurements.mfu)
      .number("watts", measurements.watts)
      .number("joules", measurements.joules)
      .number("co2_grams", measurements.co2_grams)
      .number("data_wait_seconds", record.data_wait_seconds)
      .flag("skipped", record.skipped);
  if (!record.rank_seconds.empty()) {
    const RankPace pace = pace_of(record.rank_seconds);
    line.number("rank_seconds_median", pace.median_seconds)
        .number("rank_seconds_slowest", pace.slowest_seconds)
        .integer("slowest_rank", pace.slowest_rank);
  }
  if (record.copy_drift) line.number("copy_drift", record.copy_drift);
  if (record.fp8) {
    line.integer("fp8_overflows", record.fp8->overflows)
        .number("fp8_inputs_flushed", record.fp8->inputs_flushed)
        .number("fp8_gradients_flushed", record.fp8->gradients_flushed);
  }
  line.end();
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
  step_line_.clear();
  append_step_json(step_line_, record, record.tokens - tokens_before_, measurements);
  step_line_ += '\n';
  file_->append(step_line_);
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
