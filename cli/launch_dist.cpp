// SPDX-License-Identifier: Apache-2.0
#include "launch_dist.h"

#include <cstdlib>
#include <exception>
#include <string>

#include "core/error.h"
#include "dist/hierarchical_communicator.h"
#include "launch.h"

#ifdef LITESPARK_HAS_NCCL
#include "dist/nccl/nccl_communicator.h"
#endif
#ifdef LITESPARK_HAS_GLOO
#include "dist/gloo/gloo_communicator.h"
#endif

namespace litespark::cli {
namespace {

std::optional<int> descriptor_in(const char* variable) {
  const char* text = std::getenv(variable);
  if (text == nullptr) return std::nullopt;
  const int number = std::atoi(text);
  if (number < 3) throw ConfigError(variable, "is no descriptor of a launcher", text, "3 or more");
  return number;
}

dist::Secret secret_of(const DistRequest& request) {
  if (const auto descriptor = descriptor_in(kSecretVariable)) return dist::Secret::from_descriptor(*descriptor);
  if (!request.secret_file.empty()) return dist::Secret::from_file(request.secret_file);
  throw ConfigError("distribution.secret_file", "is not set", "no secret",
                    "a file of mode 0600 that all ranks can read", request.place.launcher + " hands down none");
}

#ifdef LITESPARK_HAS_NCCL
constexpr bool kHasNccl = true;
std::unique_ptr<Communicator> make_nccl(const DistRequest& request, dist::Rendezvous& rendezvous) {
  constexpr const char* kKey = "nccl/world";
  if (request.place.rank == 0) {
    const NcclId id = make_nccl_id();
    rendezvous.set(kKey, std::string(reinterpret_cast<const char*>(id.data()), id.size()));
  }
  const std::string shared = rendezvous.get(kKey, dist::in_seconds(request.timeout_seconds));
  NcclOptions options{.rank = request.place.rank,
                      .size = request.place.size,
                      .device = request.device,
                      .compute_stream = request.compute_stream,
                      .timeout_seconds = request.timeout_seconds,
                      .is_blocking = !request.records_calls};
  if (shared.size() != options.id.size())
    throw CommError("nccl", "rank 0 gave no id", shared.size(), options.id.size());
  for (size_t i = 0; i < shared.size(); ++i) options.id[i] = static_cast<std::byte>(shared[i]);
  return make_nccl_communicator(options);
}
#else
constexpr bool kHasNccl = false;
std::unique_ptr<Communicator> make_nccl(const DistRequest&, dist::Rendezvous&) {
  throw ConfigError("cluster.gpus", "this build has no NCCL", "several GPUs", "1", "build where nccl.h is found");
}
#endif

#ifdef LITESPARK_HAS_GLOO
constexpr bool kHasGloo = true;
std::unique_ptr<Communicator> make_gloo(const DistRequest& request, dist::Rendezvous& rendezvous,
                                        const dist::Secret& secret, HostTiers& tiers) {
  return make_gloo_communicator(
      rendezvous, secret,
      {.mesh = "world",
       .communicator = {.timeout_seconds = request.timeout_seconds, .record = request.call_record},
       .wrap = [&tiers](auto link) { return tiers.wrap(std::move(link)); }});
}
#else
constexpr bool kHasGloo = false;
std::unique_ptr<Communicator> make_gloo(const DistRequest&, dist::Rendezvous&, const dist::Secret&, HostTiers&) {
  throw ConfigError("cluster.gpus", "this build has no Gloo", "several processes on CPUs", "1",
                    "build where libgloo-dev is installed");
}
#endif

}  // namespace

DistContext::DistContext(const DistRequest& request) {
  const dist::LaunchPlace& place = request.place;
  if (place.host.empty() || !place.port)
    throw ConfigError("launch", place.launcher + " does not say where rank 0 listens", "no host or port",
                      "LITESPARK_RANK, LITESPARK_SIZE, LITESPARK_HOST and LITESPARK_PORT, or torchrun's variables");
  const dist::Secret secret = secret_of(request);
  const dist::JobPlace job{.job = place.job, .attempt = place.attempt, .rank = place.rank, .size = place.size};
  if (place.rank == 0) {
    const auto inherited = descriptor_in(kListenerVariable);
    server_ = std::make_unique<dist::RendezvousServer>(
        job, request.facts, secret, inherited ? dist::Socket(*inherited) : dist::listen_on(place.host, *place.port));
  }
  rendezvous_ =
      std::make_unique<dist::Rendezvous>(dist::RendezvousAddress{place.host, *place.port}, job, request.facts, secret);
  communicator_ = make_communicator(request, secret);
  arrange(request);
  rendezvous_->on_loss([this](const std::string& what) { communicator_->abort(what); });
}

DistContext::~DistContext() {
  // Who leaves early could take back what he sent, and end the others' last call.
  if (communicator_ && std::uncaught_exceptions() == 0) {
    try {
      communicator_->barrier();
    } catch (const Error&) {
      // It has failed already, and whoever wanted to know was told.
    }
  }
  // Once this returns no loss is being told, so that the communicator may go.
  if (rendezvous_) rendezvous_->on_loss({});
}

std::unique_ptr<Communicator> DistContext::make_communicator(const DistRequest& request, const dist::Secret& secret) {
  if (request.on_cuda) return make_nccl(request, *rendezvous_);
  tiers_ = std::make_unique<HostTiers>(*rendezvous_, request.tiers, request.timeout_seconds);
  return make_gloo(request, *rendezvous_, secret, *tiers_);
}

void DistContext::arrange(const DistRequest& request) {
  int ranks_per_host = 1;
  if (request.is_hierarchical) {
    const int host = dist::host_number(*rendezvous_, dist::in_seconds(request.timeout_seconds));
    Hierarchy levels = make_hierarchical(std::move(communicator_), {.host = host, .allocate = request.allocate});
    communicator_ = std::move(levels.communicator);
    reduction_ = (levels.has_levels ? "hierarchical, " : "flat, ") + levels.layout;
    if (levels.has_levels) ranks_per_host = levels.ranks_per_host;
  }
  if (!tiers_) return;
  const auto between = communicator_->split(communicator_->rank() % ranks_per_host);
  tiers_text_ = tiers_->settle(*communicator_, *between);
}

std::unique_ptr<DistContext> open_dist(const DistRequest& request) {
  follow_launcher();
  return std::make_unique<DistContext>(request);
}

std::string linked_communicators() {
  return kHasNccl && kHasGloo ? "nccl, gloo" : kHasNccl ? "nccl" : kHasGloo ? "gloo" : "none";
}

}  // namespace litespark::cli
