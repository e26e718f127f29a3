// SPDX-License-Identifier: Apache-2.0
// The makers of all commands; each stands in its own file.
#pragma once

#include <memory>

#include "command.h"

namespace litespark::cli {

std::unique_ptr<Command> make_train_command();
std::unique_ptr<Command> make_plan_command();
std::unique_ptr<Command> make_anatomy_command();
std::unique_ptr<Command> make_prepare_command();
std::unique_ptr<Command> make_tokenize_command();
std::unique_ptr<Command> make_verify_command();
std::unique_ptr<Command> make_generate_command();
std::unique_ptr<Command> make_eval_command();
std::unique_ptr<Command> make_report_command();
std::unique_ptr<Command> make_convert_command();
std::unique_ptr<Command> make_monitor_command();
std::unique_ptr<Command> make_selftest_command();

}  // namespace litespark::cli
