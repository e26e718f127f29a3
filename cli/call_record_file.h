// SPDX-License-Identifier: Apache-2.0
// distribution.record_calls: what a rank leaves of its calls in the run folder.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "dist/call_record.h"
#include "spec/run_config.h"

namespace litespark::cli {

/// A line a call: {"call", "step", "what", "group", "bytes", "lane", "issued", "begun", "ended", "wait_begun",
/// "wait_ended"}; moments in seconds since 1970, null where they have not come.
std::string calls_json(const dist::CallRecord& record);

/// Writes calls/rank-N.jsonl when it goes, however the run ended.
class CallRecordFile {
 public:
  /// Of rank `rank` of this run; nothing where it asks for no record.
  CallRecordFile(const RunConfig& config, int rank);
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
