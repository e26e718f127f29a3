// SPDX-License-Identifier: Apache-2.0
// Chapter `collectives` (claim:C3, claim:C9): latency and bus bandwidth of the communicators that there are, by size of
// the array, the two constants of the ring formula that follow, and how much of a training step stands still for them.
#pragma once

#include <functional>
#include <memory>

#include "anatomy/chapter.h"
#include "anatomy/measure.h"
#include "anatomy/prepared_model.h"
#include "dist/communicator.h"
#include "plan/hardware.h"

namespace litespark::anatomy {

/// Ranks that can be asked to do something together.
struct RankWorld {
  std::string name;  ///< "local", "gloo", "nccl"
  int size = 1;
  /// Calls the body with every rank's communicator that lives in this process, each on a thread of its own.
  std::function<void(const std::function<void(Communicator&)>& body)> run;
  /// The device that a rank's tensors lie on and that it trains on.
  std::function<std::shared_ptr<Backend>()> make_backend;
};

/// Ranks that are threads of this process.
RankWorld local_world(int size, std::function<std::shared_ptr<Backend>()> make_backend);

struct CollectiveSizes {
  std::vector<int64_t> bytes = {1 << 10, 1 << 14, 1 << 18, 1 << 20, 1 << 22, 1 << 24};
  ModelSizes model;  ///< that the ranks train on
};

/// One size of array: medians over ranks' own clocks of rank 0.
struct CollectiveTimes {
  int64_t bytes = 0;
  double all_reduce = 0;
  double reduce_scatter = 0;
  double all_gather = 0;
};
std::vector<CollectiveTimes> measure_collectives(const RankWorld& world, const MeasureOptions& options,
                                                 const std::vector<int64_t>& bytes);

/// alpha and beta of time = 2 (N - 1) alpha + 2 (N - 1) / N S beta: alpha from the smallest array, beta from the
/// largest.
struct RingConstants {
  double alpha_seconds = 0;
  double beta_seconds_a_byte = 0;
};
RingConstants ring_constants(const std::vector<CollectiveTimes>& times, int ranks);

/// Share of a data-parallel micro-batch and update that rank 0 waits for calls to end.
double measure_exposed_share(const RankWorld& world, const MeasureOptions& options, const ModelSizes& model);

/// One chapter for all worlds; `measured`, when present, receives the link of the last world.
Chapter collectives_chapter(const std::vector<RankWorld>& worlds, const MeasureOptions& options,
                            const CollectiveSizes& sizes, Hardware* measured = nullptr);

}  // namespace litespark::anatomy
