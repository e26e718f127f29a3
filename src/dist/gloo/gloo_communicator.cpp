// SPDX-License-Identifier: Apache-2.0
#include "dist/gloo/gloo_communicator.h"

#include <utility>
#include <vector>

#include "core/error.h"
#include "dist/gloo/gloo_link.h"

namespace litespark {

std::unique_ptr<Communicator> make_gloo_communicator(dist::Rendezvous& rendezvous, const dist::Secret& secret,
                                                     const GlooOptions& options) {
  const auto deadline = dist::in_seconds(options.join_seconds);
  std::vector<std::unique_ptr<dist::Link>> links;
  try {
    auto first = std::make_unique<dist::GlooLink>(rendezvous, options.mesh, secret.bytes(), deadline);
    const dist::GlooLink& plain = *first;
    links.push_back(options.wrap ? options.wrap(std::move(first)) : std::move(first));
    const int num_lanes = rendezvous.place().size > 1 ? options.communicator.num_lanes : 1;
    for (int lane = 1; lane < num_lanes; ++lane) {
      links.push_back(std::make_unique<dist::GlooLink>(rendezvous, options.mesh + "/lane" + std::to_string(lane),
                                                       secret.bytes(), deadline, &plain));
    }
  } catch (const dist::LinkFailure& failure) {
    throw CommError(
        "gloo rank " + std::to_string(rendezvous.place().rank) + " of " + std::to_string(rendezvous.place().size),
        failure.what());
  }
  return std::make_unique<dist::HostCommunicator>(std::move(links), options.communicator);
}

}  // namespace litespark
