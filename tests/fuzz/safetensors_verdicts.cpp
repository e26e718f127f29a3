// SPDX-License-Identifier: Apache-2.0
// Reads file names from standard input, one a line, and answers "accept" or "refuse REASON" for each:
// tools/compare_safetensors.py holds the answers against the reference implementation's.
#include <cstdio>
#include <iostream>
#include <string>

#include "core/error.h"
#include "io/safetensors.h"

int main() {
  std::string path;
  while (std::getline(std::cin, path)) {
    try {
      litespark::SafetensorsFile::open(path);
      std::puts("accept");
    } catch (const litespark::DataError& error) {
      std::string reason = error.what();
      for (char& c : reason) {
        if (static_cast<unsigned char>(c) < 0x20) c = ' ';
      }
      std::printf("refuse %s\n", reason.c_str());
    }
  }
}
