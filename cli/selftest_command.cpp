// SPDX-License-Identifier: Apache-2.0
// `litespark selftest`: whether this machine and this build can be trusted, in under a minute.
#include <iostream>

#include "commands.h"
#include "run_setup.h"
#include "scratch_folder.h"
#include "selftest_checks.h"

namespace litespark::cli {
namespace {

class SelftestCommand final : public Command {
 public:
  CommandInfo info() const override {
    return {.name = "selftest",
            .purpose =
                "Checks this machine and this build: known products, memory, disk, instruction sets, threads, "
                "resume, export, accumulation, packing, energy sensors. Exit 1: a check failed, 8: suspect the "
                "hardware.",
            .example = "litespark selftest --folder=runs",
            .computes = true};
  }

  void visit(Fields& fields) override {
    fields.add({.path = "folder",
                .value = &folder_,
                .help = "Where the disk is tried; checkpoints will go there. Needs 80 MiB for a moment."});
    fields.add({.path = "device",
                .value = &device_.kind,
                .help = "auto: cuda when this build and this machine have it, else cpu.",
                .choices = {"auto", "cpu", "cuda"}});
    fields.add({.path = "threads",
                .value = &device_.threads,
                .help = "CPU threads; 0: as many as this process may use.",
                .unit = "threads",
                .range = between(0, 4096)});
    fields.add({.path = "json", .value = &json_, .help = "Print one JSON object instead of a table."});
  }

  ExitCode run(const CommandLine&) override {
    const std::vector<Check> checks = all_checks();
    std::cout << (json_ ? checks_json(checks) : checks_text(checks));
    return exit_code_of(checks);
  }

 private:
  std::vector<Check> all_checks() const {
    RunConfig config;
    config.device = device_;
    const std::unique_ptr<Backend> backend = make_backend(config);
    std::vector<Check> checks = {describe_versions(), describe_machine(*backend)};
    const auto add = [&](const char* name, const std::function<Check()>& body) {
      checks.push_back(guarded(name, body));
    };
    const auto add_all = [&](const char* name, const std::function<std::vector<Check>()>& body) {
      const Check end = guarded(name, [&] {
        for (Check& check : body()) checks.push_back(std::move(check));
        return Check{};
      });
      if (end.outcome != Outcome::kPass) checks.push_back(end);
    };
    add("matmul f32", [&] { return check_known_matmul(*backend, DType::kF32); });
    add("matmul bf16", [&] { return check_known_matmul(*backend, DType::kBF16); });
    add("memory", [&] { return check_memory(*backend); });
    add("disk", [&] { return check_disk(ScratchFolder(folder_, "selftest").path()); });
    add_all("training", [&] { return check_training(*backend, ScratchFolder(folder_, "selftest").path()); });
    if (backend->device() == Device::kCpu) {
      add_all("instruction sets", check_instruction_sets);
      add_all("threads", check_threads);
    }
    add("energy", [&] { return check_sensors(backend->device() == Device::kCuda); });
    return checks;
  }

  std::string folder_ = ".";
  DeviceSection device_;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> make_selftest_command() {
  return std::make_unique<SelftestCommand>();
}

}  // namespace litespark::cli
