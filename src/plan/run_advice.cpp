// SPDX-License-Identifier: Apache-2.0
#include "plan/run_advice.h"

#include <algorithm>
#include <cmath>

#include "core/checked.h"
#include "core/text_table.h"

namespace litespark {
namespace {

std::string whole(double value) {
  return std::to_string(static_cast<int64_t>(std::llround(value)));
}

Advice warm_up_advice(const RunConfig& config) {
  const double beta = config.optim.betas.size() > 1 ? config.optim.betas[1] : 0.999;
  // Ma and Yarats 2021 (arXiv:1910.04209): the second moment needs 2 / (1 - beta2) steps to settle.
  const double settles = std::round(2 / (1 - beta));
  const double most = std::max(settles, 0.02 * static_cast<double>(config.train.steps));
  Advice advice{.key = "schedule.warmup", .found = std::to_string(config.schedule.warmup)};
  const auto now = static_cast<double>(config.schedule.warmup);
  if (now < settles) advice.advised = whole(settles);
  if (now > 2.5 * most) advice.advised = whole(most);
  advice.reason = "Adam's second moment settles in 2 / (1 - beta2) = " + whole(settles) +
                  " steps; every further step of warm-up is one below the learning rate";
  return advice;
}

Advice batch_advice(const RunConfig& config, const RunForecast& forecast) {
  const double tokens = forecast.workload.step_tokens();
  // McCandlish et al. 2018; Kaplan et al. 2020, equation 5.3 at a loss of 2.5: about 2.6 million tokens.
  constexpr double kCritical = 2.6e6;
  Advice advice{.key = "train.accumulation", .found = count_text(static_cast<int64_t>(tokens)) + " tokens a step"};
  const double exposed = forecast.step.gradients / forecast.step.total;
  if (tokens > 2 * kCritical) advice.advised = "fewer: at most " + count_text(static_cast<int64_t>(kCritical));
  if (exposed > 0.1 && tokens < kCritical) {
    advice.advised = whole(static_cast<double>(config.train.accumulation) * std::ceil(exposed / 0.05));
  }
  advice.reason = "the sum of gradients takes " + fixed_text(100 * exposed) +
                  " % of a step; past about 2.6 M tokens a larger step buys little less loss";
  return advice;
}

Advice clip_advice(const RunConfig& config) {
  return {.key = "optim.clip_norm",
          .found = fixed_text(config.optim.clip_norm, 2),
          .advised = "",
          .reason =
              "clipping only acts on steps whose norm is above it: look at the share of clipped steps in the run's "
              "metrics; 0.8 for 1.0 matters where that share is large"};
}

Advice width_advice(const RunConfig& config, const RunForecast& forecast) {
  constexpr int64_t kTile = 256;  // columns of a matmul's tile
  const int64_t tp = config.cluster.tp;
  const int64_t width = forecast.workload.shape.ffn;
  const int64_t split = width / tp;
  const int64_t padded = round_up(split, kTile);
  Advice advice{.key = "model.intermediate_size", .found = std::to_string(width)};
  const double waste = 1 - static_cast<double>(split) / static_cast<double>(padded);
  if (waste > 0.01) advice.advised = std::to_string(padded * tp);
  advice.reason = "tiles of " + std::to_string(kTile) + " columns leave " + fixed_text(100 * waste) +
                  " % of the last ones empty; a wider layer uses them, and costs its own arithmetic";
  return advice;
}

Advice measured_width_advice(const RunConfig& config, const RunForecast& forecast, const WidthAdvice& widths) {
  Advice advice{.key = "model.intermediate_size", .found = std::to_string(forecast.workload.shape.ffn)};
  if (widths.best.width != widths.asked) advice.advised = std::to_string(widths.best.width * config.cluster.tp);
  advice.reason = "measured with neighbouring widths: " + width_verdict(widths);
  return advice;
}

Advice save_advice(const RunConfig& config, const RunForecast& forecast) {
  const FailureModel model = failure_model(config, forecast);
  const double interval = best_save_interval_seconds(model);
  const double steps = std::max(1.0, std::round(interval / forecast.step.total));
  Advice advice{.key = "checkpoint.every", .found = std::to_string(config.checkpoint.every)};
  if (steps < static_cast<double>(config.train.steps)) advice.advised = whole(steps);
  const double between = model.seconds_between_failures();
  advice.reason = "sqrt(2 x " + whole(model.save_seconds) + " s a save x " + fixed_text(between / 3600) +
                  " h between failures) (Young, Daly) at " + count_text(static_cast<int64_t>(model.device_mtbf_hours)) +
                  " h a device";
  if (const std::optional<double> stretch = failure_stretch(model, interval)) {
    advice.reason += "; then " + fixed_text(100 * (*stretch - 1), 2) + " % of the time goes to saves and repeats";
  } else {
    advice.reason += "; failures come faster than a restart of " + whole(model.restart_seconds) +
                     " s: such a run needs spare devices, not saves";
  }
  return advice;
}

}  // namespace

std::vector<Advice> run_advice(const RunConfig& config, const RunForecast& forecast, const WidthAdvice* widths) {
  const Advice width =
      widths == nullptr ? width_advice(config, forecast) : measured_width_advice(config, forecast, *widths);
  return {warm_up_advice(config), batch_advice(config, forecast), clip_advice(config), width,
          save_advice(config, forecast)};
}

std::string advice_text(const std::vector<Advice>& advice) {
  std::string text = "advice, each with its reason:\n";
  for (const Advice& one : advice) {
    text += "  " + one.key + " = " + one.found + (one.advised.empty() ? ", as it is" : ", rather " + one.advised) +
            ": " + one.reason + "\n";
  }
  return text;
}

}  // namespace litespark
