// SPDX-License-Identifier: Apache-2.0
// How ranks tell each other gradients in 16 bits: the format, and the layout of a message.
#pragma once

#include <cstdint>

#include "core/checked.h"

namespace litespark {

enum class Compression : uint8_t {
  kNone,  ///< f32, as they are
  kBF16,  ///< rounded to nearest
  kFP16,  ///< the same, each block times a power of two of its own, so that nothing overflows and little underflows
};

/// Elements that share a power of two.
inline constexpr int64_t kMessageBlock = 4096;

/// 16-bit words that tell `elements` numbers: one each, then with kFP16 each block's power of two.
constexpr int64_t message_words(Compression format, int64_t elements) {
  return elements + (format == Compression::kFP16 ? ceil_div(elements, kMessageBlock) : 0);
}

}  // namespace litespark
