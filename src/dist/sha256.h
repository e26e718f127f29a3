// SPDX-License-Identifier: Apache-2.0
// SHA-256 (FIPS 180-4) and HMAC-SHA256 (RFC 2104): how ranks show each other that they know the job's secret.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

namespace litespark::dist {

using Digest = std::array<unsigned char, 32>;

Digest sha256(std::string_view bytes);
Digest hmac_sha256(std::string_view key, std::string_view message);

/// In a time that does not depend on where they differ. Texts of other lengths differ.
bool is_equal_in_constant_time(std::string_view a, std::string_view b);

inline std::string_view view_of(const Digest& digest) {
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

/// `count` bytes from the kernel's generator. Throws IoError when it gives none.
std::string random_bytes(size_t count);

}  // namespace litespark::dist
