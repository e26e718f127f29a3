// SPDX-License-Identifier: Apache-2.0
// energy.jsonl: one record for each stretch of steps, only ever appended to. Energy of steps that a crash makes the run
// take twice was really used and stays counted.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include "meter/energy_account.h"

namespace litespark {

/// {"step", "seconds", "unmetered_seconds", "joules", "watts", "method", "devices": {name: joules}, "check"}; seconds
/// are those that the joules cover, joules and watts are null when nothing is known. "check" is the hash of what
/// stands before it.
std::string energy_json(int64_t step, const EnergyAccount& stretch);

class EnergyLog {
 public:
  /// Continues a log; its records whose check fails (a torn last one) count for nothing. Throws IoError.
  explicit EnergyLog(const std::filesystem::path& path);

  /// The sum of the records that were there, without devices.
  const EnergyAccount& recorded() const { return recorded_; }
  /// Appends and hands the line to the system; throws IoError when it does not take it.
  void add(int64_t step, const EnergyAccount& stretch);

 private:
  std::string name_;
  std::ofstream stream_;
  EnergyAccount recorded_;
};

}  // namespace litespark
