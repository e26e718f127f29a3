// SPDX-License-Identifier: Apache-2.0
// How long the loops of a slow test are: `./test.sh --full` raises them by writing a word into the build folder.
#pragma once

namespace litespark::test {

/// Loop count of a slow test: `normal` by default, `full` under `./test.sh --full`.
int slow_loops(int normal, int full);

}  // namespace litespark::test
