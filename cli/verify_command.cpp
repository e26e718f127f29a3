// SPDX-License-Identifier: Apache-2.0
// `litespark verify`: a reference dump's numbers against ours.
#include <algorithm>
#include <iostream>

#include "commands.h"
#include "core/json_text.h"
#include "core/text_table.h"
#include "run_setup.h"
#include "text_commands.h"
#include "train/verify_case.h"

namespace litespark::cli {
namespace {

std::string report_json(const VerifyReport& report) {
  std::string checks;
  for (const VerifyCheck& check : report.checks) {
    checks += (checks.empty() ? "\n  {" : ",\n  {") + std::string("\"name\": ") + json_string(check.name) +
              ", \"error\": " + json_number(check.error) + ", \"limit\": " + json_number(check.limit) +
              ", \"pass\": " + (check.pass ? "true" : "false") + "}";
  }
  return "{\"kind\": " + json_string(report.kind) + ", \"pass\": " + (report.pass() ? "true" : "false") +
         ", \"checks\": [" + checks + "\n]}\n";
}

std::string report_text(const VerifyReport& report) {
  TextTable table({"check", "error", "limit", ""});
  for (const VerifyCheck& check : report.checks) {
    table.add({check.name, short_text(check.error), short_text(check.limit), check.pass ? "pass" : "FAIL"});
  }
  const auto failed = std::count_if(report.checks.begin(), report.checks.end(), [](const auto& c) { return !c.pass; });
  return table.to_string() + "\n" + report.kind + ": " + std::to_string(report.checks.size()) + " checks, " +
         (failed == 0 ? "all within their limits" : std::to_string(failed) + " past their limits") + "\n";
}

class VerifyCommand final : public Command {
 public:
  CommandInfo info() const override {
    return {.name = "verify",
            .purpose = "Holds the numbers of a reference case against ours; exit 1 past a limit.",
            .positionals =
                {{.name = "CASE_DIR",
                  .help = "A folder with case.json, case.safetensors and a model; or tokenizer.json and cases.json."}},
            .example = "litespark verify tests/golden/llama-gqa",
            .computes = true};
  }

  void visit(Fields& fields) override {
    fields.add({.path = "json", .value = &json_, .help = "Print one JSON object instead of a table."});
    fields.add({.path = "compute",
                .value = &compute_,
                .help = "Precision of matmuls and attention; bf16 has wider limits.",
                .choices = {"fp32", "bf16"}});
    fields.add({.path = "device",
                .value = &device_.kind,
                .help = "auto: cuda when this build and this machine have it, else cpu.",
                .choices = {"auto", "cpu", "cuda"}});
    fields.add({.path = "isa",
                .value = &device_.isa,
                .help = "Highest instruction set the CPU kernels may use.",
                .choices = {"auto", "generic", "avx2", "avx512", "avx512bf16", "amx"}});
  }

  ExitCode run(const CommandLine& line) override {
    const VerifyReport report = verify(line.positionals.at(0));
    std::cout << (json_ ? report_json(report) : report_text(report));
    return report.pass() ? ExitCode::kDone : ExitCode::kCheckFailed;
  }

 private:
  VerifyReport verify(const std::filesystem::path& folder) const {
    if (auto report = verify_tokenizer_case(folder)) return std::move(*report);
    RunConfig config;
    config.device = device_;
    const std::unique_ptr<Backend> backend = make_backend(config);
    return verify_case(folder, *backend, compute_);
  }

  bool json_ = false;
  DType compute_ = DType::kF32;
  DeviceSection device_;
};

}  // namespace

std::unique_ptr<Command> make_verify_command() {
  return std::make_unique<VerifyCommand>();
}

}  // namespace litespark::cli
