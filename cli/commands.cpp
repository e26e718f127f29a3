// SPDX-License-Identifier: Apache-2.0
#include "commands.h"

#include "text_commands.h"

namespace litespark::cli {

std::vector<std::unique_ptr<Command>> all_commands() {
  std::vector<std::unique_ptr<Command>> commands;
  commands.push_back(make_train_command());
  commands.push_back(make_plan_command());
  commands.push_back(make_anatomy_command());
  add_text_commands(commands);
  commands.push_back(make_eval_command());
  commands.push_back(make_verify_command());
  commands.push_back(make_selftest_command());
  commands.push_back(make_convert_command());
  commands.push_back(make_report_command());
  commands.push_back(make_monitor_command());
  return commands;
}

}  // namespace litespark::cli
