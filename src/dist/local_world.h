// SPDX-License-Identifier: Apache-2.0
// Ranks that are threads of one process: for tests of everything that is distributed, on any machine.
#pragma once

#include <functional>
#include <memory>

#include "dist/host_communicator.h"

namespace litespark {

class LocalWorld {
 public:
  using Options = dist::HostCommunicator::Options;

  explicit LocalWorld(int size, Options options = {});
  ~LocalWorld();
  LocalWorld(const LocalWorld&) = delete;
  LocalWorld& operator=(const LocalWorld&) = delete;

  /// The communicator of one rank, for one thread; once a rank. May outlive the world.
  std::unique_ptr<Communicator> communicator(int rank);

 private:
  struct Shared;
  friend class LocalLink;
  std::vector<std::shared_ptr<Shared>> lanes_;
  Options options_;
};

/// Runs `body` on `size` threads, each with its communicator, and returns when all have ended. The first exception ends
/// the others' calls and is thrown again.
void run_local_ranks(int size, const LocalWorld::Options& options,
                     const std::function<void(Communicator& communicator)>& body);

}  // namespace litespark
