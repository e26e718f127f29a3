// SPDX-License-Identifier: Apache-2.0
#include "dist/secret.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "core/error.h"
#include "dist/sha256.h"

namespace litespark::dist {
namespace {

constexpr size_t kFewestBytes = 16;
constexpr size_t kMostBytes = 4096;

std::string read_all(int descriptor, const std::string& origin) {
  std::string bytes;
  std::array<char, 512> part;
  while (bytes.size() <= kMostBytes) {
    const ssize_t got = read(descriptor, part.data(), part.size());
    if (got == 0) break;
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw ConfigError(origin, std::string("the secret cannot be read: ") + std::strerror(errno));
    bytes.append(part.data(), static_cast<size_t>(got));
  }
  return bytes;
}

/// Closes on every way out.
struct Descriptor {
  int number;
  explicit Descriptor(int value) : number(value) {}
  ~Descriptor() {
    if (number >= 0) close(number);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
};

}  // namespace

Secret::Secret(std::string bytes, const std::string& origin) : bytes_(std::move(bytes)) {
  if (bytes_.size() < kFewestBytes || bytes_.size() > kMostBytes)
    throw ConfigError(origin, "not the length of a secret", bytes_.size(), "16 to 4096 bytes",
                      "head -c 32 /dev/urandom > FILE; chmod 600 FILE");
}

Secret Secret::random() {
  return {random_bytes(32), "secret"};
}

Secret Secret::from_file(const std::string& path) {
  // Without O_NONBLOCK a FIFO at the path would hold the run for ever.
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (file.number < 0) throw ConfigError(path, std::string("the secret cannot be opened: ") + std::strerror(errno));
  struct stat facts = {};
  if (fstat(file.number, &facts) != 0 || !S_ISREG(facts.st_mode)) throw ConfigError(path, "is no regular file");
  if (facts.st_uid != geteuid() || (facts.st_mode & 077) != 0) {
    std::string mode;
    for (int shift = 6; shift >= 0; shift -= 3) mode += static_cast<char>('0' + ((facts.st_mode >> shift) & 7));
    throw ConfigError(path, "others could read or change the secret",
                      "mode 0" + mode + ", owner " + std::to_string(facts.st_uid),
                      "mode 0600, owner " + std::to_string(geteuid()), "chmod 600 " + path);
  }
  return {read_all(file.number, path), path};
}

Secret Secret::from_descriptor(int descriptor) {
  const Descriptor file(descriptor);
  const std::string origin = "descriptor " + std::to_string(descriptor);
  return {read_all(descriptor, origin), origin};
}

}  // namespace litespark::dist
