// SPDX-License-Identifier: Apache-2.0
#include "run_ranks.h"

#include <string>
#include <utility>

#include "backend_choice.h"
#include "core/error.h"
#include "elastic.h"
#include "io/file.h"

namespace litespark::cli {

namespace {

/// A launcher of others' that starts a job again with the ranks that are left, or with more: the step stays what it is.
void share_out(RunConfig& config, int64_t ranks) {
  if (!config.distribution.elastic || config.cluster.gpus == ranks) return;
  const auto share = share_among(config, ranks);
  if (!share || share->gpus != ranks) return;  // refused by whoever counts the ranks
  config.cluster.gpus = share->gpus;
  config.cluster.dp = 0;
  config.train.accumulation = share->accumulation;
}

}  // namespace

std::optional<dist::LaunchPlace> place_among_ranks(RunConfig& config) {
  auto place = dist::find_launch(dist::process_environment());
  if (!place) return std::nullopt;
  // One task of srun may be a launcher of its own; a job of torchrun that has one process left is that process.
  if (place->size > 1 || place->launcher == "torchrun") share_out(config, place->size);
  const bool meets_itself = config.cluster.gpus == 1 && config.distribution.at_one_rank;
  if (place->size == 1 && !meets_itself) return std::nullopt;
  if (config.cluster.gpus == 1) config.cluster.gpus = place->size;
  if (config.cluster.gpus != place->size) {
    throw ConfigError("cluster.gpus", "is not the number of ranks that " + place->launcher + " started",
                      config.cluster.gpus, place->size,
                      config.distribution.elastic ? "so many do not share out a step's micro-batches evenly" : "");
  }
  config.validate();
  return place;
}

int device_of(const std::optional<dist::LaunchPlace>& place) {
  const int seen = num_gpus();
  if (!place || seen <= 1) return 0;
  return place->local_rank.value_or(place->rank % seen);
}

namespace {

/// What all ranks must have in common: each setting by its key, and the program itself.
dist::JobFacts facts_of_run(RunConfig config) {
  dist::JobFacts facts = {{"program", std::string(LITESPARK_VERSION) + " " + hash_file("/proc/self/exe")}};
  const Fields fields = Fields::of(config);
  for (const Field& field : fields.list()) {
    const std::string value = value_text(field);
    if (!value.empty()) facts.emplace_back(field.path, value);
  }
  return facts;
}

TierRequest tiers_of(const DistributionSection& distribution) {
  using Choice = TierRequest::Choice;
  return {.choice = distribution.tiers == HostTiersChoice::kAuto      ? Choice::kMeasured
                    : distribution.tiers == HostTiersChoice::kArticle ? Choice::kThresholds
                                                                      : Choice::kSharded,
          .multicast_below = distribution.multicast_below,
          .one_sided_below = distribution.one_sided_below};
}

}  // namespace

std::unique_ptr<DistContext> meet_ranks(const RunConfig& config, const std::optional<dist::LaunchPlace>& place,
                                        Backend& backend, std::shared_ptr<dist::CallRecord> record) {
  if (!place) return nullptr;
  const bool on_cuda = backend.device() == Device::kCuda;
  const ReductionLevels wanted = config.distribution.reduction;
  return open_dist(
      {.place = *place,
       .facts = facts_of_run(config),
       .on_cuda = on_cuda,
       .device = device_of(place),
       .compute_stream = compute_stream_of(backend),
       .timeout_seconds = static_cast<double>(config.distribution.timeout_seconds),
       .records_calls = config.distribution.graphs,
       .is_hierarchical = wanted == ReductionLevels::kHierarchical || (wanted == ReductionLevels::kAuto && !on_cuda),
       .tiers = tiers_of(config.distribution),
       .allocate = [&backend](int64_t bytes) -> std::shared_ptr<void> {
         std::shared_ptr<DeviceMemory> memory = backend.allocate(bytes);
         return {memory, memory->data()};
       },
       .secret_file = config.distribution.secret_file,
       .call_record = std::move(record)});
}

}  // namespace litespark::cli
