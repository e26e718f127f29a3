// SPDX-License-Identifier: Apache-2.0
// Size arithmetic that cannot wrap. Every size that comes from a file, a socket or a config goes through here.
#pragma once

#include <cstdint>
#include <optional>

namespace litespark {

inline std::optional<int64_t> checked_add(int64_t a, int64_t b) {
  int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) return std::nullopt;
  return sum;
}

inline std::optional<int64_t> checked_mul(int64_t a, int64_t b) {
  int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}

/// Smallest multiple of `alignment` that is at least `value`; both positive, the caller's sizes already checked.
inline int64_t round_up(int64_t value, int64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

/// For formulas in doubles; exact up to 2^53.
inline double real(int64_t value) {
  return static_cast<double>(value);
}

inline int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

}  // namespace litespark
