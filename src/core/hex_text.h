// SPDX-License-Identifier: Apache-2.0
// Bytes and words as lower-case hexadecimal digits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace litespark {

/// Two digits a byte.
std::string hex_text(std::span<const std::byte> bytes);
/// All 16 digits, the highest first.
std::string hex_text(uint64_t word);

}  // namespace litespark
