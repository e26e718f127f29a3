// SPDX-License-Identifier: Apache-2.0
// Every call on more ranks than a moment allows.
#include <gtest/gtest.h>

#include "communicator_conformance.h"
#include "dist/hierarchical_communicator.h"
#include "dist/local_world.h"

namespace litespark {
namespace {

TEST(HierarchicalCommunicatorSlow, RanksOfUnequalNumbersOfHostsAndPlacesDoWhatEveryCallSays) {
  for (const int ranks_per_host : {2, 3}) {
    for (const test::ConformanceCase& item : test::conformance_cases()) {
      SCOPED_TRACE(item.name + " with " + std::to_string(ranks_per_host) + " ranks a host");
      EXPECT_NO_THROW(run_local_ranks(6, {.timeout_seconds = 60}, [&](Communicator& world) {
        const Hierarchy levels =
            make_hierarchical(world.split(0), {.host = world.rank() / ranks_per_host, .direct_bytes = 0});
        const auto memory = test::make_host_memory();
        item.run(*levels.communicator, *memory);
      }));
    }
  }
}

}  // namespace
}  // namespace litespark
