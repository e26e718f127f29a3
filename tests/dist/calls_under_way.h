// SPDX-License-Identifier: Apache-2.0
// A rank of a process that has several calls under way at once until something fails, and then holds its memory against
// late writes. The test reads what it prints.
#pragma once

#include "dist/communicator.h"

namespace litespark::test {

/// Issues a step's calls while those of the step before it are under way, without end, and prints "step N" when those
/// of step N are done. When that fails it prints "failed", overwrites all memory that it had handed to calls, and after
/// a second prints "memory: untouched" or what was written; then the CommError goes on.
void endless_calls_under_way(Communicator& world);

}  // namespace litespark::test
