// SPDX-License-Identifier: Apache-2.0
// energy.jsonl: a record of each device for each stretch of steps, only ever appended to. Energy of steps that a crash
// makes the run take twice was really used and stays counted.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "io/file.h"
#include "meter/energy_account.h"

namespace litespark {

/// A line for each device of the stretch: {"step", "record", "seconds", "unmetered_seconds", "joules", "watts",
/// "method", "device", "check"}. "record" counts the lines of the stretch from 0; the seconds, which all of them share,
/// are those that the joules cover; "check" is the hash of what stands before it. When nothing is known there is one
/// line for the device "all", with null for joules and watts.
std::string energy_lines(int64_t step, const EnergyAccount& stretch);
/// The same at the end of `out`, which need not grow when it has the room.
void append_energy_lines(std::string& out, int64_t step, const EnergyAccount& stretch);

class EnergyLog {
 public:
  /// Continues a log; its records whose check fails (a torn last one) count for nothing. Throws IoError.
  explicit EnergyLog(const std::filesystem::path& path);

  /// The sum of the records that were there, without devices.
  const EnergyAccount& recorded() const { return recorded_; }
  /// Appends and hands the lines to the system; throws IoError when it does not take them.
  void add(int64_t step, const EnergyAccount& stretch);

 private:
  AppendFile file_;
  EnergyAccount recorded_;
  std::string lines_;  ///< keeps its memory from record to record
};

}  // namespace litespark
