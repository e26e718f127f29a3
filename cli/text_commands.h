// SPDX-License-Identifier: Apache-2.0
// What needs tokenizers and text: linked from text_commands.cpp, or from text_commands_absent.cpp in builds for
// machines that only train (LITESPARK_TEXT off).
#pragma once

#include <filesystem>
#include <functional>
#include <optional>

#include "command.h"
#include "model/executor.h"
#include "train/sample_log.h"
#include "train/verify_case.h"

namespace litespark::cli {

/// prepare, tokenize and generate, or nothing.
void add_text_commands(std::vector<std::unique_ptr<Command>>& commands);

/// The report of a tokenizer's case folder; nullopt when the folder is none.
std::optional<VerifyReport> verify_tokenizer_case(const std::filesystem::path& folder);

/// Before work starts: data.tokenizer, where it is named, must be a folder with a tokenizer.json that can be read; for
/// data.source = "text", whose ids are bytes, one that reads each id as its byte. Throws ConfigError, DataError. Builds
/// without tokenizers only look for the file.
void check_tokenizer(const RunConfig& config);

/// A sample of the executor's current weights after `step`; nullopt when `should_stop` said so between two tokens.
using TakeSample = std::function<std::optional<TextSample>(int64_t step, const std::function<bool()>& should_stop)>;

/// What train.sample_every asks for; empty when it asks for nothing. `executor` and its program's generation phases
/// outlive it; taking a sample changes no training state. Throws ConfigError for a prompt that leaves no room and in
/// builds without tokenizers, DataError when data.tokenizer is malformed or has more ids than the model.
TakeSample make_sampler(const RunConfig& config, Executor& executor);

}  // namespace litespark::cli
