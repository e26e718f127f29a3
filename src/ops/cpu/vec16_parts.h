// SPDX-License-Identifier: Apache-2.0
// Walks an array of any length in parts of sixteen lanes: whole ones, then one that reads and writes only what is
// there. Everything is a template over a Vec16 type, so that each instruction set gets functions of its own.
#pragma once

#include <cstdint>

#include "core/bf16.h"

namespace litespark::cpu {

/// Sixteen elements.
template <class Vec>
struct WholePart {
  static constexpr int64_t count() { return 16; }
  template <class T>
  Vec load(const T* from) const {
    return Vec::load(from);
  }
  template <class T>
  Vec load_or(const T* from, float) const {
    return Vec::load(from);
  }
  template <class T>
  void store(T* to, Vec value) const {
    value.store(to);
  }
};

/// The first `size` < 16 elements; lanes behind them read as 0 or as `fill` and are not written.
template <class Vec>
struct TailPart {
  int64_t size;

  int64_t count() const { return size; }
  template <class T>
  Vec load(const T* from) const {
    alignas(64) T buffer[16] = {};
    for (int64_t i = 0; i < size; ++i) buffer[i] = from[i];
    return Vec::load(buffer);
  }
  template <class T>
  Vec load_or(const T* from, float fill) const {
    const auto is_there = less(Vec::iota(), Vec::broadcast(static_cast<float>(size)));
    return select(is_there, load(from), Vec::broadcast(fill));
  }
  template <class T>
  void store(T* to, Vec value) const {
    alignas(64) T buffer[16];
    value.store(buffer);
    for (int64_t i = 0; i < size; ++i) to[i] = buffer[i];
  }
};

/// Calls body(part, offset) for every part of `size` elements, in order.
template <class Vec, class Body>
inline void for_each_part(int64_t size, const Body& body) {
  int64_t i = 0;
  for (; i + 16 <= size; i += 16) body(WholePart<Vec>{}, i);
  if (i < size) body(TailPart<Vec>{size - i}, i);
}

}  // namespace litespark::cpu
