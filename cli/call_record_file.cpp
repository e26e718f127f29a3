// SPDX-License-Identifier: Apache-2.0
#include "call_record_file.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <iomanip>
#include <iostream>
#include <sstream>
#include <system_error>

#include "core/error.h"
#include "core/json_text.h"
#include "io/file.h"

namespace litespark::cli {
namespace {

/// To a microsecond: the shortest text of such a number has many digits more.
std::string moment_text(double seconds) {
  if (std::isnan(seconds)) return "null";
  std::ostringstream text;
  text << std::fixed << std::setprecision(6) << seconds;
  return text.str();
}

}  // namespace

std::string calls_json(const std::vector<dist::RecordedCall>& calls) {
  std::string lines;
  for (const dist::RecordedCall& call : calls) {
    lines += "{\"call\": " + std::to_string(call.number) + ", \"step\": " + std::to_string(call.step) +
             ", \"what\": " + json_string(call.what) + ", \"group\": " + json_string(call.group) +
             ", \"bytes\": " + std::to_string(call.bytes) + ", \"lane\": " + std::to_string(call.lane) +
             ", \"issued\": " + moment_text(call.issued) + ", \"begun\": " + moment_text(call.begun) +
             ", \"ended\": " + moment_text(call.ended) + ", \"wait_begun\": " + moment_text(call.wait_begun) +
             ", \"wait_ended\": " + moment_text(call.wait_ended) + "}\n";
  }
  return lines;
}

CallRecordFile::CallRecordFile(const RunConfig& config, const std::optional<dist::LaunchPlace>& place) {
  const int64_t num_calls = config.distribution.record_calls;
  if (num_calls == 0 || !place) return;
  record_ = std::make_shared<dist::CallRecord>(static_cast<size_t>(num_calls));
  std::string name = "rank-" + std::to_string(place->rank);
  if (place->attempt > 0) name += "-attempt-" + std::to_string(place->attempt);
  path_ = std::filesystem::path(config.out) / "calls" / (name + ".jsonl");
}

CallRecordFile::~CallRecordFile() {
  if (!record_) return;
  try {
    const std::vector<dist::RecordedCall> calls = record_->calls();
    // Before its first step a start may still be refused, and what an earlier one left must stay.
    if (std::none_of(calls.begin(), calls.end(), [](const auto& call) { return call.step > 0; })) return;
    std::error_code status;
    std::filesystem::create_directories(path_.parent_path(), status);
    if (status) throw IoError(path_.parent_path().string(), "the folder cannot be made: " + status.message());
    write_text_file(path_, calls_json(calls));
  } catch (const std::exception& error) {
    std::cerr << "warning: the record of calls is lost: " << error.what() << std::endl;
  }
}

}  // namespace litespark::cli
