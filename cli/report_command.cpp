// SPDX-License-Identifier: Apache-2.0
// `litespark report`: one HTML page on a run.
#include <iostream>

#include "commands.h"
#include "report/page.h"

namespace litespark::cli {
namespace {

class ReportCommand final : public Command {
 public:
  CommandInfo info() const override {
    return {.name = "report",
            .purpose = "Writes RUN_DIR/report.html: curves, energy, memory and time of a run on one page.",
            .positionals = {{.name = "RUN_DIR", .help = "The folder of a run; the run may still go on."}},
            .example = "litespark report runs/5m"};
  }

  ExitCode run(const CommandLine& line) override {
    std::cout << "report: " << report::write_report(line.positionals.at(0)).string() << "\n";
    return ExitCode::kDone;
  }
};

}  // namespace

std::unique_ptr<Command> make_report_command() {
  return std::make_unique<ReportCommand>();
}

}  // namespace litespark::cli
