// SPDX-License-Identifier: Apache-2.0
// What needs tokenizers and text: linked from text_commands.cpp, or from text_commands_absent.cpp in builds for
// machines that only train (LITESPARK_TEXT off).
#pragma once

#include <filesystem>
#include <optional>

#include "command.h"
#include "train/verify_case.h"

namespace litespark::cli {

/// prepare, tokenize and generate, or nothing.
void add_text_commands(std::vector<std::unique_ptr<Command>>& commands);

/// The report of a tokenizer's case folder; nullopt when the folder is none.
std::optional<VerifyReport> verify_tokenizer_case(const std::filesystem::path& folder);

}  // namespace litespark::cli
