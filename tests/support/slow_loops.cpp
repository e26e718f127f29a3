// SPDX-License-Identifier: Apache-2.0
// Reads the scale that ./test.sh leaves beside the build; a build that it never ran in has normal loops.
#include "support/slow_loops.h"

#include <fstream>
#include <string>

namespace litespark::test {

int slow_loops(int normal, int full) {
  std::ifstream file(LITESPARK_BINARY_DIR "/slow_scale");
  std::string word;
  file >> word;
  return word == "full" ? full : normal;
}

}  // namespace litespark::test
