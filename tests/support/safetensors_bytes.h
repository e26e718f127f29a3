// SPDX-License-Identifier: Apache-2.0
// Safetensors files made by hand, right or wrong, without the code under test.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace litespark::test {

/// Length, header, data: as the arguments say, whether they agree or not.
inline std::string safetensors_bytes(std::string_view header, std::string_view data, uint64_t length) {
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, sizeof(length));
  return bytes.append(header).append(data);
}

inline std::string safetensors_bytes(std::string_view header, std::string_view data = {}) {
  return safetensors_bytes(header, data, header.size());
}

}  // namespace litespark::test
