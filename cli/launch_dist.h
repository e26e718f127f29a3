// SPDX-License-Identifier: Apache-2.0
// How the ranks of a run that were started by a launcher come together and what they talk through.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "dist/call_record.h"
#include "dist/communicator.h"
#include "dist/launch_environment.h"
#include "dist/rendezvous.h"
#include "host_tiers.h"

namespace litespark::cli {

struct DistRequest {
  dist::LaunchPlace place;  ///< this process's, from find_launch
  dist::JobFacts facts;     ///< what all ranks must have in common
  bool on_cuda = false;     ///< NCCL, else Gloo
  int device = 0;           ///< CUDA ordinal
  void* compute_stream = nullptr;
  double timeout_seconds = 600;  ///< of each call
  bool records_calls = false;    ///< some become parts of CUDA graphs
  /// Sums inside each host first, where ranks stand evenly on several.
  bool is_hierarchical = false;
  TierRequest tiers;                                             ///< over Gloo
  std::function<std::shared_ptr<void>(int64_t bytes)> allocate;  ///< where the communicator's tensors live; empty: host
  std::string secret_file;                                       ///< where the launcher hands down no secret
  std::shared_ptr<dist::CallRecord> call_record;                 ///< takes this rank's calls, not over NCCL
};

/// A rank among others for as long as it lives.
class DistContext {
 public:
  explicit DistContext(const DistRequest& request);
  ~DistContext();
  DistContext(const DistContext&) = delete;
  DistContext& operator=(const DistContext&) = delete;

  Communicator& communicator() { return *communicator_; }
  /// "hierarchical, 2 hosts of 4 ranks", "flat, 3 ranks of one host"; empty where levels were not asked for.
  const std::string& reduction() const { return reduction_; }
  /// What goes which way between hosts, with what was measured; empty where there is one way.
  const std::string& tiers() const { return tiers_text_; }

 private:
  std::unique_ptr<Communicator> make_communicator(const DistRequest& request, const dist::Secret& secret);
  /// Over the communicator that there is: two levels, and ways between hosts.
  void arrange(const DistRequest& request);

  std::unique_ptr<dist::RendezvousServer> server_;  ///< in rank 0
  std::unique_ptr<dist::Rendezvous> rendezvous_;
  std::unique_ptr<HostTiers> tiers_;  ///< over Gloo
  std::unique_ptr<Communicator> communicator_;
  std::string reduction_;
  std::string tiers_text_;
};

/// Meets the other ranks. The loss of one of them, as the rendezvous sees it, ends the communicator's calls with its
/// name. Throws ConfigError for what is missing or differs, CommError when ranks do not come.
std::unique_ptr<DistContext> open_dist(const DistRequest& request);

/// "nccl, gloo": what this program was built with.
std::string linked_communicators();

}  // namespace litespark::cli
