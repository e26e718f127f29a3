// SPDX-License-Identifier: Apache-2.0
#include "report/live_view.h"

#include <algorithm>

#include "core/json_text.h"
#include "core/quote.h"
#include "core/text_table.h"
#include "report/number_text.h"

namespace litespark::report {
namespace {

constexpr double kMuchDataWait = 0.1;
constexpr double kMemoryIsFull = 0.97;
constexpr double kBoardIsIdle = 0.5;
constexpr double kThreadsAreBusy = 0.95;

std::string percent_text(double share) {
  return fixed_text(100.0 * share, 1) + " %";
}

/// "" for what is unknown, so that it drops out of a line.
std::string labelled(const char* label, const std::optional<double>& value, const char* unit, int digits = 4) {
  return value ? std::string(label) + number_text(*value, digits) + unit : "";
}

/// The parts that say something, two spaces apart.
std::string joined(const std::vector<std::string>& parts) {
  std::string line;
  for (const std::string& part : parts) {
    if (part.empty()) continue;
    if (!line.empty()) line += "  ";
    line += part;
  }
  return line;
}

std::string step_text(const RunTail& run) {
  if (!run.last_step) return "no step yet";
  std::string step = "step " + std::to_string(run.last_step->step);
  if (!run.total_steps) return step;
  return step + "/" + std::to_string(*run.total_steps) + " (" +
         percent_text(static_cast<double>(run.last_step->step) / static_cast<double>(*run.total_steps)) + ")";
}

std::string energy_method(const RunTail& run) {
  const bool is_estimated =
      std::any_of(run.energy.begin(), run.energy.end(), [](const auto& line) { return line.method == "estimated"; });
  return is_estimated ? " W (partly estimated)" : " W";
}

std::string run_line(const std::string& name, const RunTail& run) {
  const StepLine last = run.last_step.value_or(StepLine{});
  const auto left = run.seconds_left();
  return joined(
      {name + ": " + step_text(run), run.seconds_since_update ? duration_text(*run.seconds_since_update) + " ago" : "",
       labelled("loss ", last.loss, ""), labelled("grad norm ", last.grad_norm, "", 3), labelled("lr ", last.lr, "", 3),
       labelled("", last.tokens_per_second, " tokens/s"), last.mfu ? "MFU " + percent_text(*last.mfu) : "",
       labelled("", last.watts, energy_method(run).c_str()),
       run.data_wait_share() ? "data wait " + percent_text(*run.data_wait_share()) : "",
       run.last_eval
           ? labelled("held-out loss ", run.last_eval->loss, "") + " (step " + std::to_string(run.last_eval->step) + ")"
           : "",
       left ? "left " + duration_text(*left) : ""});
}

std::string used_text(const std::optional<int64_t>& used, const std::optional<int64_t>& all) {
  if (!used || !all) return "";
  return bytes_text(*used) + " of " + bytes_text(*all);
}

std::string reasons_text(const GpuStatus& gpu) {
  if (!gpu.slow_reasons) return "";
  if (gpu.slow_reasons->empty()) return "clocks free";
  std::string text = "clocks held by: ";
  for (const std::string& reason : *gpu.slow_reasons)
    text += (&reason == gpu.slow_reasons->data() ? "" : ", ") + reason;
  return text;
}

std::string gpu_line(const GpuStatus& gpu) {
  const std::string limit = labelled(" of ", gpu.power_limit_watts, " W");
  const auto pcie = [](const char* label, const std::optional<double>& rate) {
    return rate ? label + bytes_text(static_cast<int64_t>(*rate)) + "/s" : std::string();
  };
  return joined({gpu.name + " " + gpu.uuid + ":", gpu.power_watts ? labelled("", gpu.power_watts, " W") + limit : "",
                 labelled("SM ", gpu.sm_clock_mhz, " MHz"), labelled("memory ", gpu.memory_clock_mhz, " MHz"),
                 labelled("", gpu.temperature_celsius, " C"),
                 gpu.busy_share ? "busy " + percent_text(*gpu.busy_share) : "",
                 used_text(gpu.memory_used_bytes, gpu.memory_bytes), reasons_text(gpu),
                 pcie("PCIe out ", gpu.pcie_sent_bytes_per_second), pcie("in ", gpu.pcie_received_bytes_per_second)});
}

std::string host_line(const LiveMoment& moment) {
  std::vector<std::string> parts = {"host:"};
  const HostStatus& host = moment.host;
  if (host.busy_threads) {
    parts.push_back(fixed_text(*host.busy_threads, 1) + " of " + std::to_string(host.num_threads) + " threads busy");
  }
  const std::string used = used_text(host.memory_used_bytes, host.memory_bytes);
  if (!used.empty()) parts.push_back("memory " + used);
  for (const DeviceEnergy& device : moment.host_energy.devices) {
    const auto& joules = device.reading.joules;
    const bool is_known = joules && moment.host_energy.seconds > 0;
    parts.push_back(device.device + " " +
                    (is_known ? number_text(*joules / moment.host_energy.seconds, 4) + " W (" : "power (") +
                    std::string(method_name(device.reading.method)) + ")");
  }
  return joined(parts);
}

bool is_held_down(const GpuStatus& gpu, const char* reason) {
  return gpu.slow_reasons && std::any_of(gpu.slow_reasons->begin(), gpu.slow_reasons->end(),
                                         [&](const std::string& text) { return text.starts_with(reason); });
}

std::string number_or_null(const std::optional<double>& value) {
  return value ? json_number(*value) : "null";
}
std::string integer_or_null(const std::optional<int64_t>& value) {
  return value ? std::to_string(*value) : "null";
}

std::string run_json(const std::string& name, const RunTail& run) {
  const StepLine last = run.last_step.value_or(StepLine{});
  const EvalLine eval = run.last_eval.value_or(EvalLine{});
  return "{\"folder\": " + json_string(name) + ", \"step\": " + (run.last_step ? std::to_string(last.step) : "null") +
         ", \"steps\": " + integer_or_null(run.total_steps) +
         ", \"seconds_since_update\": " + number_or_null(run.seconds_since_update) +
         ", \"seconds_left\": " + number_or_null(run.seconds_left()) + ", \"loss\": " + number_or_null(last.loss) +
         ", \"grad_norm\": " + number_or_null(last.grad_norm) + ", \"lr\": " + number_or_null(last.lr) +
         ", \"tokens_per_second\": " + number_or_null(last.tokens_per_second) +
         ", \"mfu\": " + number_or_null(last.mfu) + ", \"watts\": " + number_or_null(last.watts) +
         ", \"data_wait_share\": " + number_or_null(run.data_wait_share()) +
         ", \"eval_step\": " + (run.last_eval ? std::to_string(eval.step) : "null") +
         ", \"eval_loss\": " + number_or_null(eval.loss) +
         ", \"warning\": " + (run.last_warning ? json_string(run.last_warning->text) : "null") + "}";
}

std::string gpu_json(const GpuStatus& gpu) {
  std::string reasons = "null";
  if (gpu.slow_reasons) {
    reasons = "[";
    for (const std::string& reason : *gpu.slow_reasons) {
      reasons += (reasons.size() == 1 ? "" : ", ") + json_string(reason);
    }
    reasons += "]";
  }
  return "{\"uuid\": " + json_string(gpu.uuid) + ", \"name\": " + json_string(gpu.name) +
         ", \"power_watts\": " + number_or_null(gpu.power_watts) +
         ", \"power_limit_watts\": " + number_or_null(gpu.power_limit_watts) +
         ", \"sm_clock_mhz\": " + number_or_null(gpu.sm_clock_mhz) +
         ", \"memory_clock_mhz\": " + number_or_null(gpu.memory_clock_mhz) +
         ", \"temperature_celsius\": " + number_or_null(gpu.temperature_celsius) +
         ", \"busy_share\": " + number_or_null(gpu.busy_share) +
         ", \"memory_used_bytes\": " + integer_or_null(gpu.memory_used_bytes) +
         ", \"memory_bytes\": " + integer_or_null(gpu.memory_bytes) + ", \"slow_reasons\": " + reasons +
         ", \"pcie_sent_bytes_per_second\": " + number_or_null(gpu.pcie_sent_bytes_per_second) +
         ", \"pcie_received_bytes_per_second\": " + number_or_null(gpu.pcie_received_bytes_per_second) + "}";
}

std::string host_json(const LiveMoment& moment) {
  std::string devices;
  for (const DeviceEnergy& device : moment.host_energy.devices) {
    std::optional<double> watts;
    if (device.reading.joules && moment.host_energy.seconds > 0) {
      watts = *device.reading.joules / moment.host_energy.seconds;
    }
    devices += (devices.empty() ? "" : ", ") + ("{\"device\": " + json_string(device.device)) +
               ", \"watts\": " + number_or_null(watts) +
               ", \"method\": " + json_string(method_name(device.reading.method)) + "}";
  }
  const HostStatus& host = moment.host;
  return "{\"busy_threads\": " + number_or_null(host.busy_threads) +
         ", \"threads\": " + std::to_string(host.num_threads) +
         ", \"memory_used_bytes\": " + integer_or_null(host.memory_used_bytes) +
         ", \"memory_bytes\": " + integer_or_null(host.memory_bytes) + ", \"power\": [" + devices + "]}";
}

}  // namespace

std::string bottleneck_text(const LiveMoment& moment) {
  if (moment.run && moment.run->data_wait_share().value_or(0) > kMuchDataWait) {
    return "steps wait for data; raise data.workers";
  }
  for (const GpuStatus& gpu : moment.gpus) {
    if (is_held_down(gpu, "temperature")) return gpu.uuid + " is hot and slowed down";
    if (is_held_down(gpu, "power")) return gpu.uuid + " runs at its power limit";
  }
  for (const GpuStatus& gpu : moment.gpus) {
    const bool is_full =
        gpu.memory_used_bytes && gpu.memory_bytes &&
        static_cast<double>(*gpu.memory_used_bytes) > kMemoryIsFull * static_cast<double>(*gpu.memory_bytes);
    if (is_full) return gpu.uuid + " has hardly any memory left";
  }
  const bool are_boards_idle =
      !moment.gpus.empty() && std::all_of(moment.gpus.begin(), moment.gpus.end(), [](const GpuStatus& gpu) {
        return gpu.busy_share.value_or(1) < kBoardIsIdle;
      });
  if (moment.run && are_boards_idle) return "the boards are idle more than half of the time";
  const double threads = moment.host.num_threads;
  if (moment.host.busy_threads.value_or(0) > kThreadsAreBusy * threads) return "all processor threads are busy";
  return "";
}

std::vector<std::string> live_lines(const LiveMoment& moment) {
  std::vector<std::string> lines;
  if (moment.run) lines.push_back(run_line(moment.run_name, *moment.run));
  for (const GpuStatus& gpu : moment.gpus) lines.push_back(gpu_line(gpu));
  lines.push_back(host_line(moment));
  const std::string bottleneck = bottleneck_text(moment);
  if (!bottleneck.empty()) lines.push_back("bottleneck: " + bottleneck);
  if (moment.run && moment.run->last_warning) {
    lines.push_back("warning at step " + std::to_string(moment.run->last_warning->step) + ": " +
                    quote(moment.run->last_warning->text));
  }
  return lines;
}

std::string live_json(const LiveMoment& moment) {
  std::string gpus;
  for (const GpuStatus& gpu : moment.gpus) gpus += (gpus.empty() ? "" : ", ") + gpu_json(gpu);
  const std::string bottleneck = bottleneck_text(moment);
  return "{\"run\": " + (moment.run ? run_json(moment.run_name, *moment.run) : "null") + ", \"gpus\": [" + gpus +
         "], \"host\": " + host_json(moment) +
         ", \"bottleneck\": " + (bottleneck.empty() ? "null" : json_string(bottleneck)) + "}";
}

}  // namespace litespark::report
