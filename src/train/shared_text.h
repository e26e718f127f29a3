// SPDX-License-Identifier: Apache-2.0
// What one rank of a run decides for all, mostly the first: texts that go from it to the others over their
// communicator.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "dist/communicator.h"
#include "ops/backend.h"

namespace litespark {

/// The first rank's `text` on every rank. All ranks call it at the same point. With one rank (nullptr) `text` itself.
std::string from_first_rank(Communicator* ranks, Backend& backend, const std::string& text);

/// Every rank's `text`, of which at most 255 bytes travel, in rank order on every rank. All ranks call it.
std::vector<std::string> from_all_ranks(Communicator* ranks, Backend& backend, const std::string& text);

/// One rank's, of named texts.
std::map<std::string, std::string> from_rank(int rank, Communicator* ranks, Backend& backend,
                                             const std::map<std::string, std::string>& texts);
/// The first rank's.
std::map<std::string, std::string> from_first_rank(Communicator* ranks, Backend& backend,
                                                   const std::map<std::string, std::string>& texts);

}  // namespace litespark
