// SPDX-License-Identifier: Apache-2.0
#include "train/replica_check.h"

#include <algorithm>
#include <set>

#include "core/error.h"
#include "dist/comm_call.h"

namespace litespark {
namespace {

/// The value that more than half of a column's ranks have, if there is one.
std::optional<int64_t> majority_of(const std::vector<int64_t>& column) {
  const auto is_common = [&](int64_t value) {
    return 2 * std::count(column.begin(), column.end(), value) > std::ssize(column);
  };
  const auto found = std::find_if(column.begin(), column.end(), is_common);
  return found == column.end() ? std::nullopt : std::optional(*found);
}

std::string differences_text(const Program& program, const std::vector<ReplicaDifference>& differences) {
  std::set<int> places;
  bool has_majority = true;
  for (const ReplicaDifference& difference : differences) {
    for (const int64_t rank : difference.ranks) {
      places.insert(static_cast<int>(program.options.rank_of(rank)));
    }
    has_majority = has_majority && difference.has_majority;
  }
  constexpr size_t kMostNamed = 3;
  std::string text;
  for (size_t i = 0; i < std::min(differences.size(), kMostNamed); ++i) {
    text += (i == 0 ? "" : ", ") + program.tensors[program.replicas.tensors[differences[i].tensor]].name;
  }
  if (differences.size() > kMostNamed) text += " and " + std::to_string(differences.size() - kMostNamed) + " more";
  const std::string ranks = dist::ranks_text(std::vector<int>(places.begin(), places.end()));
  if (has_majority) return text + " on " + ranks + " against most of the others";
  return text + " among " + ranks + ", of which no majority agrees";
}

}  // namespace

std::vector<ReplicaDifference> find_replica_differences(std::span<const int64_t> table, int64_t ranks) {
  std::vector<ReplicaDifference> differences;
  const size_t tensors = table.size() / static_cast<size_t>(ranks);
  for (size_t tensor = 0; tensor < tensors; ++tensor) {
    std::vector<int64_t> column;
    for (size_t rank = 0; rank < static_cast<size_t>(ranks); ++rank) column.push_back(table[rank * tensors + tensor]);
    if (std::count(column.begin(), column.end(), column.front()) == ranks) continue;
    const std::optional<int64_t> common = majority_of(column);
    ReplicaDifference difference{.tensor = tensor, .has_majority = common.has_value()};
    for (int64_t rank = 0; rank < ranks; ++rank) {
      if (column[static_cast<size_t>(rank)] != common) difference.ranks.push_back(rank);
    }
    differences.push_back(difference);
  }
  return differences;
}

void check_replicas(Executor& executor, int64_t step) {
  const Program& program = executor.program();
  executor.run(Phase::kReplicas);
  std::vector<int64_t> table(static_cast<size_t>(program.tensors[program.replicas.checksums].shape.num_elements()));
  executor.read(program.replicas.checksums, table.data(), static_cast<int64_t>(table.size() * sizeof(int64_t)));
  executor.communicator()->check_alive();  // a lost rank leaves anything in the table
  const std::vector<ReplicaDifference> differences = find_replica_differences(table, program.options.data_ranks);
  if (differences.empty()) return;
  throw DeviceError("distribution.verify_every",
                    "step " + std::to_string(step) + ": " + differences_text(program, differences) +
                        " differ: what all ranks must have has other bits there; the memory or the hardware of that "
                        "rank is suspected. Nothing was updated in this step; checkpoints since the last check may "
                        "hold it");
}

}  // namespace litespark
