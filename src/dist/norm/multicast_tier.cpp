// SPDX-License-Identifier: Apache-2.0
#include "dist/norm/multicast_tier.h"

#include <cstring>
#include <vector>

#include "dist/sha256.h"

namespace litespark::dist {
namespace {

/// A word from each rank to all others.
void probe(NormLink& link, double seconds) {
  const CallLabel label = {.kind = CallKind::kBarrier};
  const auto size = static_cast<size_t>(link.size());
  std::vector<std::byte> heard(size);
  std::byte said = std::byte{1};
  std::vector<Message> sent;
  std::vector<Message> received;
  for (int rank = 0; rank < link.size(); ++rank) {
    if (rank == link.rank()) continue;
    sent.push_back({.rank = rank, .data = &said, .bytes = 1, .label = label, .is_for_all = true});
    received.push_back(
        {.rank = rank, .data = &heard[static_cast<size_t>(rank)], .bytes = 1, .label = label, .is_for_all = true});
  }
  link.transfer(sent, received, in_seconds(seconds));
}

/// What each rank says, agreed by all: the first that is not empty, with its rank.
std::string first_complaint(Rendezvous& rendezvous, const std::string& topic, const std::string& own,
                            Clock::time_point deadline) {
  const auto key = [&](int rank) { return "multicast/" + topic + "/" + std::to_string(rank); };
  rendezvous.set(key(rendezvous.place().rank), own);
  std::string first;
  for (int rank = 0; rank < rendezvous.place().size; ++rank) {
    const std::string said = rendezvous.get(key(rank), deadline);
    if (first.empty() && !said.empty()) first = "rank " + std::to_string(rank) + ": " + said;
  }
  return first;
}

}  // namespace

MulticastTier make_multicast_tier(Rendezvous& rendezvous, Clock::time_point deadline, double probe_seconds,
                                  double lost_percent) {
  const JobPlace& place = rendezvous.place();
  if (place.rank == 0) rendezvous.set("multicast/job", random_bytes(sizeof(uint64_t)));
  const std::string job = rendezvous.get("multicast/job", deadline);
  NormOptions options = {
      .rank = place.rank, .size = place.size, .address = rendezvous.own_address(), .lost_percent = lost_percent};
  std::memcpy(&options.job, job.data(), std::min(job.size(), sizeof(options.job)));
  MulticastTier tier;
  std::string complaint;
  try {
    tier.link = std::make_unique<NormLink>(options);
  } catch (const LinkFailure& failure) {
    complaint = failure.what();
  }
  tier.missing = first_complaint(rendezvous, "started", complaint, deadline);
  if (tier.missing.empty()) {
    try {
      probe(*tier.link, probe_seconds);
    } catch (const LinkFailure& failure) {
      complaint = failure.what();
    }
    tier.missing = first_complaint(rendezvous, "heard", complaint, deadline);
  }
  if (!tier.missing.empty()) tier.link.reset();
  return tier;
}

}  // namespace litespark::dist
