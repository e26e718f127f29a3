// SPDX-License-Identifier: Apache-2.0
// Which rank of how many a process is, read from the variables that launchers set. A pure function of them: nobody is
// asked, nothing is initialised.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace litespark::dist {

using Environment = std::map<std::string, std::string>;

/// The variables of this process.
Environment process_environment();

struct LaunchPlace {
  std::string launcher;  ///< "litespark", "torchrun", "srun", "mpirun", "mpich"
  int rank = 0;
  int size = 1;
  std::optional<int> local_rank;  ///< among the ranks of this host
  std::optional<int> local_size;
  std::string job;      ///< empty: the launcher names none
  int64_t attempt = 0;  ///< restarts of the same job so far
  std::string host;     ///< where rank 0 listens; empty: the launcher does not say
  std::optional<int> port;
};

/// The launcher that started this process; nullopt: none, so one rank alone. Variables of Slurm count only within a
/// step of several tasks, since a batch script has them too. Throws ConfigError for a value that is no number, a rank
/// outside its size, a half of a pair, and for two launchers that disagree, with both.
std::optional<LaunchPlace> find_launch(const Environment& environment);

/// The first host of a Slurm list: "gn[01-03,7],x" gives "gn01". Throws ConfigError for a list that cannot be read.
std::string first_slurm_host(const std::string& list);

}  // namespace litespark::dist
