// SPDX-License-Identifier: Apache-2.0
// The secret that the ranks of one job share. It comes from a file that only its owner can read or from a descriptor
// that a launcher hands down: never from the command line, which every user of a machine can see.
#pragma once

#include <string>

namespace litespark::dist {

class Secret {
 public:
  /// 32 random bytes.
  static Secret random();
  /// A regular file of this user's, mode 0600 or stricter, of 16 bytes to 4 KiB. Throws ConfigError.
  static Secret from_file(const std::string& path);
  /// Reads to the end and closes; the same lengths. Throws ConfigError.
  static Secret from_descriptor(int descriptor);

  const std::string& bytes() const { return bytes_; }

 private:
  Secret(std::string bytes, const std::string& origin);
  std::string bytes_;
};

}  // namespace litespark::dist
