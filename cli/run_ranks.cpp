// SPDX-License-Identifier: Apache-2.0
#include "run_ranks.h"

#include "core/error.h"

namespace litespark::cli {

std::unique_ptr<Communicator> open_ranks(const RunConfig& config, Backend&) {
  if (config.cluster.gpus == 1) return nullptr;
  throw ConfigError("cluster.gpus", "is not supported yet", config.cluster.gpus, 1);
}

}  // namespace litespark::cli
