// SPDX-License-Identifier: Apache-2.0
// CPUs that talk through MPI, as mpirun or srun started them. MPI brings its ranks together and stays what it is: when
// a rank is killed, its launcher ends the job; a rank that hangs is found by our deadline.
#pragma once

#include <memory>
#include <string>

#include "dist/host_communicator.h"
#include "dist/tiered_link.h"

namespace litespark {

/// MPI for as long as this process uses it; at most one. MPI_Init_thread in the constructor, on the main thread, with
/// MPI_THREAD_SERIALIZED; MPI_Finalize in the destructor, unless a communicator failed: it would wait for the lost
/// rank.
class MpiSession {
 public:
  /// Throws ConfigError when MPI does not start or allows fewer threads.
  MpiSession();
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;
};

/// All ranks of the session; collective, within `join_seconds`. With `one_sided`, calls that it gives to kOneSided are
/// written straight into the other ranks' memory. Throws CommError.
std::unique_ptr<Communicator> make_mpi_communicator(const MpiSession& session,
                                                    const dist::HostCommunicator::Options& options,
                                                    double join_seconds = 300,
                                                    std::shared_ptr<const dist::TierSwitch> one_sided = nullptr);

}  // namespace litespark
