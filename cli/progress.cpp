// SPDX-License-Identifier: Apache-2.0
#include "progress.h"

#include <unistd.h>

#include <array>
#include <charconv>
#include <cmath>
#include <iostream>
#include <string_view>

#include "core/json_text.h"
#include "core/text_table.h"

namespace litespark::cli {
namespace {

constexpr double kSmoothing = 0.05;

/// Nobody reads faster, and a terminal over a network is slow.
constexpr std::chrono::milliseconds kRedrawPeriod{100};

void append_integer(std::string& out, int64_t value) {
  append_json_number(out, value);
}

void append_duration(std::string& out, double seconds) {
  if (!(seconds >= 0.0) || seconds > 1e9) {
    out += '?';
    return;
  }
  const auto whole = static_cast<int64_t>(std::lround(seconds));
  const auto add = [&out](int64_t first, const char* unit, int64_t second, const char* smaller) {
    append_integer(out, first);
    out.append(unit).append(second < 10 ? " 0" : " ");
    append_integer(out, second);
    out += smaller;
  };
  if (whole >= 86400) return add(whole / 86400, "d", whole % 86400 / 3600, "h");
  if (whole >= 3600) return add(whole / 3600, "h", whole % 3600 / 60, "m");
  add(whole / 60, "m", whole % 60, "s");
}

/// Three significant digits, as C's %g writes them.
void append_rate(std::string& out, double rate) {
  std::array<char, 32> buffer{};
  const auto [end, status] =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), rate, std::chars_format::general, 3);
  out.append(buffer.data(), end);
}

}  // namespace

Progress::Progress(int64_t steps, int64_t log_every, int64_t steps_done, int64_t tokens_done)
    : steps_(steps), log_every_(log_every), is_terminal_(isatty(STDOUT_FILENO) == 1), tokens_before_(tokens_done) {
  if (steps_done > 0) note("continuing after step " + std::to_string(steps_done));
}

Progress::~Progress() {
  if (has_open_line_) std::cout << std::endl;
}

void Progress::compose_line(const StepRecord& record, const StepMeasurements& measurements) {
  // A mean from the first step on: early steps weigh equally until the window is full.
  ++num_shown_;
  const double weight = std::max(kSmoothing, 1.0 / static_cast<double>(num_shown_));
  if (!record.skipped) smooth_loss_ += weight * (record.loss - smooth_loss_);
  smooth_seconds_ += weight * (record.seconds - smooth_seconds_);
  const double tokens = static_cast<double>(record.tokens - tokens_before_);
  const double difference = record.loss - smooth_loss_;
  const std::string_view trend = std::abs(difference) < 5e-5 ? "" : difference < 0 ? " (falling)" : " (rising)";
  line_ = "step ";
  append_integer(line_, record.step);
  line_ += '/';
  append_integer(line_, steps_);
  append_fixed(line_ += "  loss ", record.loss, 4);
  if (is_terminal_) line_ += trend;
  append_fixed(line_ += "  grad norm ", record.grad_norm, 3);
  append_rate(line_ += "  lr ", record.lr);
  append_fixed(line_ += "  ", tokens / record.seconds, 0);
  line_ += " tokens/s";
  if (measurements.mfu) {
    append_fixed(line_ += "  MFU ", 100.0 * *measurements.mfu, 1);
    line_ += '%';
  }
  if (measurements.watts) {
    append_fixed(line_ += "  ", *measurements.watts, 1);
    line_ += " W";
  }
  append_fixed(line_ += "  data wait ", 100.0 * record.data_wait_seconds / record.seconds, 1);
  append_duration(line_ += "%  left ", smooth_seconds_ * static_cast<double>(steps_ - record.step));
  if (record.skipped) line_ += "  skipped";
}

void Progress::show(const StepRecord& record, const StepMeasurements& measurements) {
  compose_line(record, measurements);
  tokens_before_ = record.tokens;
  const bool is_worth_a_line = record.step % log_every_ == 0 || record.step == steps_ || record.skipped;
  const auto now = std::chrono::steady_clock::now();
  if (is_terminal_) {
    const bool is_too_soon = now - last_drawn_ < kRedrawPeriod && record.step != steps_ && !record.skipped;
    if (is_too_soon) return;
    last_drawn_ = now;
    // Back to the line's start, and clear what a longer one left.
    std::cout << "\r" << line_ << "\x1b[K" << std::flush;
    has_open_line_ = true;
  } else if (is_worth_a_line) {
    std::cout << line_ << std::endl;
  }
}

void Progress::show_eval(int64_t step, const EvalResult& result) {
  note("step " + std::to_string(step) + "  held-out loss " + fixed_text(result.loss, 4) + " over " +
       count_text(result.supervised_tokens) + " tokens");
}

void Progress::show_sample(const TextSample& sample) {
  note("step " + std::to_string(sample.step) + "  sample " + json_string(sample.prompt + sample.text));
}

void Progress::note(const std::string& text) {
  if (has_open_line_) std::cout << "\n";
  has_open_line_ = false;
  std::cout << text << std::endl;
}

}  // namespace litespark::cli
