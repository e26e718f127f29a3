// SPDX-License-Identifier: Apache-2.0
// Times all-reduces over MPI from rank to rank and through windows: `mpirun -np N bench_mpi_ways ROUNDS MOST_BYTES`.
#include <cstdlib>
#include <iostream>

#include "dist/mpi/mpi_communicator.h"
#include "way_timer.h"

int main(int argc, char** argv) {
  using namespace litespark;
  if (argc != 3) return 2;
  try {
    const MpiSession session;
    const auto chosen = std::make_shared<dist::TierSwitch>();
    const auto world = make_mpi_communicator(session, {}, 60, chosen);
    const dist::Tier present[] = {dist::Tier::kSharded, dist::Tier::kOneSided};
    time_tiers(*world, *chosen, present, std::atoi(argv[1]), std::atoll(argv[2]));
    return 0;
  } catch (const std::exception& error) {
    std::cerr << error.what() << std::endl;
    return 1;
  }
}
