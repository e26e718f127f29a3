// SPDX-License-Identifier: Apache-2.0
// What every communicator must do, run by each rank on its own: threads, processes and GPUs share these cases. A case
// throws when something is wrong, so that it works outside GoogleTest too.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "dist/communicator.h"

namespace litespark::test {

/// Memory where a communicator's tensors live.
class RankMemory {
 public:
  virtual ~RankMemory() = default;
  /// At least `bytes`, until this object goes.
  virtual void* allocate(int64_t bytes) = 0;
  virtual void write(void* destination, const void* source, int64_t bytes) = 0;
  virtual void read(void* destination, const void* source, int64_t bytes) = 0;
  virtual Device device() const = 0;
};

std::unique_ptr<RankMemory> make_host_memory();

struct ConformanceCase {
  std::string name;
  std::function<void(Communicator& communicator, RankMemory& memory)> run;
};

/// Calls that succeed. All may be run one after another on one communicator of any size.
const std::vector<ConformanceCase>& conformance_cases();

/// Calls that fail: each needs a communicator of its own, of 2 ranks or more, with a deadline of about
/// `kFaultTimeoutSeconds`. A rank that is to be late comes after one and a half of them.
inline constexpr double kFaultTimeoutSeconds = 2;
struct FaultCase {
  std::string name;
  std::function<void(Communicator& communicator, RankMemory& memory)> run;
  /// An engine that sees other ranks' calls only through its own deadline need not name what they called.
  bool needs_labels = false;
};
const std::vector<FaultCase>& fault_cases();

/// Runs `body`; what it throws says which case it was.
template <class Body>
void run_named(const std::string& name, const Body& body) {
  try {
    body();
  } catch (const std::exception& error) {
    throw std::runtime_error(name + ": " + error.what());
  }
}

}  // namespace litespark::test
