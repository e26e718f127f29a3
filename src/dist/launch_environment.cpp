// SPDX-License-Identifier: Apache-2.0
#include "dist/launch_environment.h"

#include <unistd.h>

#include <charconv>
#include <limits>
#include <vector>

#include "core/error.h"

namespace litespark::dist {
namespace {

class Variables {
 public:
  explicit Variables(const Environment& environment) : environment_(environment) {}

  bool has(const std::string& name) const { return environment_.contains(name); }

  std::string text(const std::string& name) const {
    const auto found = environment_.find(name);
    return found == environment_.end() ? std::string() : found->second;
  }

  std::optional<int64_t> number(const std::string& name) const {
    if (!has(name)) return std::nullopt;
    const std::string value = text(name);
    int64_t result = 0;
    const auto [end, status] = std::from_chars(value.data(), value.data() + value.size(), result);
    if (value.empty() || status != std::errc() || end != value.data() + value.size() || result < 0)
      throw ConfigError(name, "is no whole number of 0 or more", value, "a number such as 3");
    return result;
  }

  std::optional<int> small_number(const std::string& name) const {
    const std::optional<int64_t> value = number(name);
    if (value && *value > std::numeric_limits<int>::max())
      throw ConfigError(name, "is too large", *value, "a number of ranks");
    return value ? std::optional(static_cast<int>(*value)) : std::nullopt;
  }

  /// Rank and size under their two names, of which one alone is an error.
  std::optional<LaunchPlace> place(const std::string& launcher, const std::string& rank,
                                   const std::string& size) const {
    if (!has(rank) && !has(size)) return std::nullopt;
    if (!has(rank) || !has(size))
      throw ConfigError(has(rank) ? size : rank, "is not set although " + (has(rank) ? rank : size) + " is");
    LaunchPlace place{.launcher = launcher, .rank = *small_number(rank), .size = *small_number(size)};
    if (place.rank >= place.size)
      throw ConfigError(rank, "is no rank of " + size + " = " + std::to_string(place.size), place.rank,
                        "0 to " + std::to_string(place.size - 1));
    return place;
  }

  std::optional<LaunchPlace> litespark() const {
    auto found = place("litespark", "LITESPARK_RANK", "LITESPARK_SIZE");
    if (!found) return found;
    found->local_rank = small_number("LITESPARK_LOCAL_RANK");
    found->local_size = small_number("LITESPARK_LOCAL_SIZE");
    found->job = text("LITESPARK_JOB");
    found->attempt = number("LITESPARK_ATTEMPT").value_or(0);
    found->host = text("LITESPARK_HOST");
    found->port = small_number("LITESPARK_PORT");
    return found;
  }

  std::optional<LaunchPlace> torchrun() const {
    auto found = place("torchrun", "RANK", "WORLD_SIZE");
    if (!found) return found;
    found->local_rank = small_number("LOCAL_RANK");
    found->local_size = small_number("LOCAL_WORLD_SIZE");
    found->job = text("TORCHELASTIC_RUN_ID");
    found->attempt = number("TORCHELASTIC_RESTART_COUNT").value_or(0);
    found->host = text("MASTER_ADDR");
    // torchrun's own store holds the port itself.
    if (const auto port = small_number("MASTER_PORT")) found->port = *port + (found->job.empty() ? 0 : 1);
    return found;
  }

  std::optional<LaunchPlace> srun() const {
    // sbatch sets PROCID = 0 and the task count for the batch script itself, whose step is named "batch".
    const std::string step = text("SLURM_STEP_ID");
    if (step.empty() || step.find_first_not_of("0123456789") != std::string::npos || !has("SLURM_PROCID"))
      return std::nullopt;
    const std::string size = has("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS";
    if (small_number(size).value_or(1) < 2) return std::nullopt;
    auto found = place("srun", "SLURM_PROCID", size);
    if (!found) return found;
    found->local_rank = small_number("SLURM_LOCALID");
    found->job = text("SLURM_JOB_ID") + "." + step;
    found->attempt = number("SLURM_RESTART_COUNT").value_or(0);
    const std::string hosts = text(has("SLURM_STEP_NODELIST") ? "SLURM_STEP_NODELIST" : "SLURM_NODELIST");
    if (!hosts.empty()) found->host = first_slurm_host(hosts);
    return found;
  }

  std::optional<LaunchPlace> open_mpi() const {
    auto found = place("mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE");
    if (!found) return found;
    found->local_rank = small_number("OMPI_COMM_WORLD_LOCAL_RANK");
    found->local_size = small_number("OMPI_COMM_WORLD_LOCAL_SIZE");
    found->job = text("PMIX_NAMESPACE");
    return found;
  }

  std::optional<LaunchPlace> mpich() const {
    auto found = place("mpich", "PMI_RANK", "PMI_SIZE");
    if (!found) return found;
    found->local_rank = small_number("MPI_LOCALRANKID");
    found->local_size = small_number("MPI_LOCALNRANKS");
    return found;
  }

 private:
  const Environment& environment_;
};

std::string said(const LaunchPlace& place) {
  return place.launcher + " says rank " + std::to_string(place.rank) + " of " + std::to_string(place.size);
}

}  // namespace

Environment process_environment() {
  Environment environment;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const size_t equals = text.find('=');
    if (equals != std::string::npos) environment.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return environment;
}

std::optional<LaunchPlace> find_launch(const Environment& environment) {
  const Variables variables(environment);
  std::vector<LaunchPlace> found;
  // Ours first: who starts `litespark train --gpus` inside a Slurm step means those ranks.
  if (auto place = variables.litespark()) return place;
  for (auto place : {variables.torchrun(), variables.srun(), variables.open_mpi(), variables.mpich()}) {
    if (place) found.push_back(*place);
  }
  if (found.empty()) return std::nullopt;
  for (const LaunchPlace& other : found) {
    if (other.rank == found.front().rank && other.size == found.front().size) continue;
    throw ConfigError("launch", "two launchers disagree: " + said(found.front()) + ", " + said(other), "both",
                      "one of them", "unset the variables of the other");
  }
  return found.front();
}

std::string first_slurm_host(const std::string& list) {
  const size_t end = list.find_first_of(",[");
  std::string host = list.substr(0, end);
  if (end == std::string::npos || list[end] == ',') return host;
  const size_t close = list.find(']', end);
  const std::string numbers = list.substr(end + 1, close == std::string::npos ? 0 : close - end - 1);
  const std::string first = numbers.substr(0, numbers.find_first_of(",-"));
  if (first.empty() || first.find_first_not_of("0123456789") != std::string::npos)
    throw ConfigError("SLURM_STEP_NODELIST", "cannot be read", list, "a list such as gn[01-03,7]");
  const size_t after = list.find_first_of(",[", close);
  return host + first + list.substr(close + 1, after == std::string::npos ? std::string::npos : after - close - 1);
}

}  // namespace litespark::dist
