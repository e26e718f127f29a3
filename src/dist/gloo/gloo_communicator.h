// SPDX-License-Identifier: Apache-2.0
// CPUs that talk over TCP through Gloo. Gloo itself lets anybody in: peers find each other through the rendezvous alone
// and prove to each other that they know the job's secret before any data.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "dist/host_communicator.h"
#include "dist/rendezvous.h"

namespace litespark {

struct GlooOptions {
  std::string mesh = "world";  ///< names the group of ranks in the rendezvous; one communicator a name
  double join_seconds = 300;   ///< until all ranks must be connected
  dist::HostCommunicator::Options communicator;
  /// What calls go through instead of the plain link, which it takes. Empty: the plain link.
  std::function<std::unique_ptr<dist::Link>(std::unique_ptr<dist::Link> link)> wrap;
};

/// All ranks of the job, in its order; returns when they are connected and proven. Payloads travel in clear text.
/// Throws CommError.
std::unique_ptr<Communicator> make_gloo_communicator(dist::Rendezvous& rendezvous, const dist::Secret& secret,
                                                     const GlooOptions& options);

}  // namespace litespark
