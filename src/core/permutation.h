// SPDX-License-Identifier: Apache-2.0
// A pseudo-random permutation of 0 .. size-1 as a pure function: no table, any position in constant time. Feistel
// rounds over the smallest even-bit domain that holds `size`, walked until the value falls inside (Black and Rogaway
// 2002).
#pragma once

#include <cstdint>

namespace litespark {

class Permutation {
 public:
  /// `size` > 0. The same (size, seed, stream) always gives the same permutation.
  Permutation(uint64_t size, uint64_t seed, uint64_t stream);

  uint64_t size() const { return size_; }
  /// Image of `position`, which must be less than size().
  uint64_t operator()(uint64_t position) const;

 private:
  uint64_t scramble(uint64_t value) const;

  uint64_t size_;
  uint64_t seed_;
  uint64_t stream_;
  int half_bits_ = 1;
};

}  // namespace litespark
