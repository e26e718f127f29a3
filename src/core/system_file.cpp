// SPDX-License-Identifier: Apache-2.0
#include "core/system_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace litespark {

std::string_view read_system_file(const char* path, std::span<char> buffer) {
  const int descriptor = open(path, O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return {};
  size_t size = 0;
  while (size < buffer.size()) {
    const ssize_t count = read(descriptor, buffer.data() + size, buffer.size() - size);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    size += static_cast<size_t>(count);
  }
  close(descriptor);
  return {buffer.data(), size};
}

}  // namespace litespark
