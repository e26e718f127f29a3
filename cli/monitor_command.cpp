// SPDX-License-Identifier: Apache-2.0
// `litespark monitor`: where a run stands and what its machine does, again and again.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <thread>

#include "commands.h"
#include "meter/cpu_model.h"
#include "meter/rapl.h"
#include "report/live_view.h"

namespace litespark::cli {
namespace {

/// Without a wait before it, a single look would know no rates.
constexpr double kFirstInterval = 0.25;

/// Processor and memory of the whole machine: counters where they can be read, else the model over all processes.
std::vector<std::unique_ptr<EnergySensor>> host_sensors(const HostStatusReader& host) {
  std::vector<std::unique_ptr<EnergySensor>> sensors = find_rapl_sensors();
  bool has_cpu = false;
  bool has_memory = false;
  for (const auto& sensor : sensors) {
    has_cpu = has_cpu || sensor->part() == EnergyPart::kCpu;
    has_memory = has_memory || sensor->part() == EnergyPart::kRam;
  }
  const CpuModel model = cpu_model_of_this_machine();
  if (!has_cpu) sensors.push_back(make_cpu_estimate(model, [&host] { return host.busy_seconds(); }));
  if (!has_memory) sensors.push_back(make_memory_estimate(model));
  return sensors;
}

class Watcher {
 public:
  /// `run` may be empty: devices alone.
  explicit Watcher(std::string run) : run_(std::move(run)), gpus_(open_gpu_status()), meter_(host_sensors(host_)) {
    (void)host_.read(monotonic_seconds());
  }

  report::LiveMoment look() {
    report::LiveMoment moment{.run_name = run_, .run = {}, .gpus = {}, .host = {}, .host_energy = {}};
    if (!run_.empty()) moment.run = report::read_run_tail(run_);
    if (gpus_) moment.gpus = gpus_->read();
    moment.host = host_.read(monotonic_seconds());
    moment.host_energy = meter_.read();
    return moment;
  }

 private:
  std::string run_;
  std::unique_ptr<const GpuStatusReader> gpus_;
  HostStatusReader host_;
  EnergyMeter meter_;
};

/// Lines that replace those of the moment before on a terminal, and follow them elsewhere.
class Screen {
 public:
  void show(const std::vector<std::string>& lines) {
    if (is_terminal_ && num_shown_ > 0) std::cout << "\x1b[" << num_shown_ << "A\r\x1b[J";
    // Wide lines are cut by the terminal: wrapped ones would take more rows than the cursor goes back.
    if (is_terminal_) std::cout << "\x1b[?7l";
    for (const std::string& line : lines) std::cout << line << "\n";
    if (is_terminal_) std::cout << "\x1b[?7h";
    std::cout << std::flush;
    num_shown_ = lines.size();
  }

 private:
  bool is_terminal_ = isatty(STDOUT_FILENO) == 1;
  size_t num_shown_ = 0;
};

class MonitorCommand final : public Command {
 public:
  CommandInfo info() const override {
    return {.name = "monitor",
            .purpose =
                "Shows where a run stands and what the devices do: power, clocks and what holds them down, "
                "memory, PCIe; until Ctrl-C.",
            .positionals = {{.name = "RUN_DIR",
                             .help = "The folder of a run, going on or ended. It is only read.",
                             .is_required = false}},
            .example = "litespark monitor runs/5m --interval=2"};
  }

  void visit(Fields& fields) override {
    fields.add({.path = "device", .value = &only_device_, .help = "Show the devices alone, without a run."});
    fields.add({.path = "interval",
                .value = &interval_,
                .help = "Time between two looks.",
                .unit = "seconds",
                .range = between(0.1, 3600)});
    fields.add({.path = "once", .value = &once_, .help = "Look once and end."});
    fields.add({.path = "json", .value = &json_, .help = "Print one JSON object a look, each on its line."});
  }

  ExitCode run(const CommandLine& line) override {
    if (line.positionals.empty() != only_device_) {
      throw ConfigError("monitor", "needs one thing to watch", only_device_ ? "two" : "nothing", "RUN_DIR or --device");
    }
    const std::string folder = line.positionals.empty() ? "" : line.positionals.front();
    if (!folder.empty()) (void)report::read_run_tail(folder);  // refused before anybody waits
    Watcher watcher(folder);
    Screen screen;
    double wait = std::min(interval_, kFirstInterval);
    do {
      std::this_thread::sleep_for(std::chrono::duration<double>(wait));
      wait = interval_;
      const report::LiveMoment moment = watcher.look();
      if (json_) {
        std::cout << report::live_json(moment) << std::endl;
      } else {
        screen.show(report::live_lines(moment));
      }
    } while (!once_ && std::cout);
    return ExitCode::kDone;
  }

 private:
  bool only_device_ = false;
  double interval_ = 1.0;
  bool once_ = false;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> make_monitor_command() {
  return std::make_unique<MonitorCommand>();
}

}  // namespace litespark::cli
