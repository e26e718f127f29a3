// SPDX-License-Identifier: Apache-2.0
// Runs a fuzz target over the files of the folders given: a regression test without the fuzzer. Ends by an uncaught
// exception when the target does.
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

int main(int argc, char** argv) {
  int num_files = 0;
  for (int i = 1; i < argc; ++i) {
    for (const auto& entry : std::filesystem::directory_iterator(argv[i])) {
      std::ifstream stream(entry.path(), std::ios::binary);
      const std::string bytes{std::istreambuf_iterator<char>(stream), {}};
      LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
      ++num_files;
    }
  }
  std::printf("%d inputs\n", num_files);
  return num_files > 0 ? 0 : 1;
}
