// SPDX-License-Identifier: Apache-2.0
// A number that tells two tensors apart, bit for bit, without bringing either to the host.
#pragma once

#include <cstdint>
#include <string_view>

namespace litespark::op {

/// Element `index` with these bits, in a checksum. One to one in `bits`, so that a single changed element always shows;
/// that several changes cancel out has a chance of 2^-64.
constexpr uint64_t checksum_term(int64_t index, uint32_t bits) {
  uint64_t term = (static_cast<uint64_t>(static_cast<uint32_t>(index)) << 32) | bits;
  term *= 0x9E3779B97F4A7C15u;
  term ^= term >> 32;
  term *= 0xD6E8FEB86659FD93u;
  return term ^ (term >> 29);
}

/// out[0] = sum of checksum_term(i, bits of x[i]) modulo 2^64, the same in any order. out [1] i64, overwritten; x of
/// any shape and of elements of 1, 2 or 4 bytes, read as a row of them.
template <class T>
struct Checksum {
  static constexpr std::string_view kName = "checksum";
  T out, x;

  template <class F>
  auto map(F&& f) const {
    return Checksum<decltype(f.in("x", x))>{.out = f.out("out", out), .x = f.in("x", x)};
  }
};

}  // namespace litespark::op
