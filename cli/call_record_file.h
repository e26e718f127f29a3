// SPDX-License-Identifier: Apache-2.0
// distribution.record_calls: what a rank leaves of its calls in the run folder.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dist/call_record.h"
#include "dist/launch_environment.h"
#include "spec/run_config.h"

namespace litespark::cli {

/// A line a call: {"call", "step", "what", "group", "bytes", "lane", "issued", "begun", "ended", "wait_begun",
/// "wait_ended"}; moments in seconds since 1970, null where they have not come.
std::string calls_json(const std::vector<dist::RecordedCall>& calls);

/// Writes calls/rank-N.jsonl, of a later attempt calls/rank-N-attempt-M.jsonl, when it goes, however the run ended;
/// nothing where no step was begun.
class CallRecordFile {
 public:
  /// Of the rank at `place`; nothing where the run asks for no record or there is one rank.
  CallRecordFile(const RunConfig& config, const std::optional<dist::LaunchPlace>& place);
  ~CallRecordFile();
  CallRecordFile(const CallRecordFile&) = delete;
  CallRecordFile& operator=(const CallRecordFile&) = delete;

  /// nullptr: none is asked for.
  const std::shared_ptr<dist::CallRecord>& record() const { return record_; }

 private:
  std::filesystem::path path_;
  std::shared_ptr<dist::CallRecord> record_;
};

}  // namespace litespark::cli
