// SPDX-License-Identifier: Apache-2.0
#include "progress.h"

#include <unistd.h>

#include <cmath>
#include <iostream>
#include <sstream>

#include "core/json_text.h"
#include "core/text_table.h"

namespace litespark::cli {
namespace {

constexpr double kSmoothing = 0.05;

/// Nobody reads faster, and a terminal over a network is slow.
constexpr std::chrono::milliseconds kRedrawPeriod{100};

std::string duration_text(double seconds) {
  if (!(seconds >= 0.0) || seconds > 1e9) return "?";
  const auto whole = static_cast<int64_t>(std::lround(seconds));
  const auto two = [](int64_t n) { return (n < 10 ? "0" : "") + std::to_string(n); };
  if (whole >= 86400) return std::to_string(whole / 86400) + "d " + two(whole % 86400 / 3600) + "h";
  if (whole >= 3600) return std::to_string(whole / 3600) + "h " + two(whole % 3600 / 60) + "m";
  return std::to_string(whole / 60) + "m " + two(whole % 60) + "s";
}

std::string rate_text(double rate) {
  std::ostringstream stream;
  stream.precision(3);
  stream << rate;
  return stream.str();
}

}  // namespace

Progress::Progress(int64_t steps, int64_t log_every, int64_t steps_done, int64_t tokens_done)
    : steps_(steps), log_every_(log_every), is_terminal_(isatty(STDOUT_FILENO) == 1), tokens_before_(tokens_done) {
  if (steps_done > 0) note("continuing after step " + std::to_string(steps_done));
}

Progress::~Progress() {
  if (has_open_line_) std::cout << std::endl;
}

std::string Progress::line_of(const StepRecord& record, const StepMeasurements& measurements) {
  // A mean from the first step on: early steps weigh equally until the window is full.
  ++num_shown_;
  const double weight = std::max(kSmoothing, 1.0 / static_cast<double>(num_shown_));
  if (!record.skipped) smooth_loss_ += weight * (record.loss - smooth_loss_);
  smooth_seconds_ += weight * (record.seconds - smooth_seconds_);
  const double tokens = static_cast<double>(record.tokens - tokens_before_);
  const double difference = record.loss - smooth_loss_;
  const std::string trend = std::abs(difference) < 5e-5 ? "" : difference < 0 ? " (falling)" : " (rising)";
  return "step " + std::to_string(record.step) + "/" + std::to_string(steps_) + "  loss " + fixed_text(record.loss, 4) +
         (is_terminal_ ? trend : "") + "  grad norm " + fixed_text(record.grad_norm, 3) + "  lr " +
         rate_text(record.lr) + "  " + fixed_text(tokens / record.seconds, 0) + " tokens/s" +
         (measurements.mfu ? "  MFU " + fixed_text(100.0 * *measurements.mfu, 1) + "%" : "") +
         (measurements.watts ? "  " + fixed_text(*measurements.watts, 1) + " W" : "") + "  data wait " +
         fixed_text(100.0 * record.data_wait_seconds / record.seconds, 1) + "%  left " +
         duration_text(smooth_seconds_ * static_cast<double>(steps_ - record.step)) +
         (record.skipped ? "  skipped" : "");
}

void Progress::show(const StepRecord& record, const StepMeasurements& measurements) {
  const std::string line = line_of(record, measurements);
  tokens_before_ = record.tokens;
  const bool is_worth_a_line = record.step % log_every_ == 0 || record.step == steps_ || record.skipped;
  const auto now = std::chrono::steady_clock::now();
  if (is_terminal_) {
    const bool is_too_soon = now - last_drawn_ < kRedrawPeriod && record.step != steps_ && !record.skipped;
    if (is_too_soon) return;
    last_drawn_ = now;
    // Back to the line's start, and clear what a longer one left.
    std::cout << "\r" << line << "\x1b[K" << std::flush;
    has_open_line_ = true;
  } else if (is_worth_a_line) {
    std::cout << line << std::endl;
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
