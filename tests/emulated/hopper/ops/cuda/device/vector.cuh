// SPDX-License-Identifier: Apache-2.0
// Stands in for the header of the same name: what Hopper kernels use of it.
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "block.h"
#include "core/bf16.h"
#include "core/fp16.h"

namespace litespark::cuda {

inline constexpr int kVectorWidth = 8;

inline uint32_t pack_bf16(float low, float high) {
  return to_bf16(low).bits | static_cast<uint32_t>(to_bf16(high).bits) << 16;
}

inline float as_float(float value) {
  return value;
}
inline float as_float(bf16 value) {
  return to_float(value);
}
inline float as_float(fp16 value) {
  return to_float(value);
}
template <class T>
T from_float(float value) {
  if constexpr (std::is_same_v<T, bf16>) {
    return to_bf16(value);
  } else {
    return value;
  }
}

template <class T, int kWidth>
struct alignas(sizeof(T) * kWidth > 16 ? 16 : sizeof(T) * kWidth) Pack {
  T elements[kWidth];
  float operator[](int i) const { return as_float(elements[i]); }
};
template <int kWidth, class T>
Pack<T, kWidth> load_pack(const T* source) {
  return *reinterpret_cast<const Pack<T, kWidth>*>(source);
}

template <class T, int kWidth>
float largest_of(const Pack<T, kWidth>& pack) {
  float largest = pack[0];
  for (int i = 1; i < kWidth; ++i) largest = std::fmax(largest, pack[i]);
  return largest;
}

template <class T, int kWidth>
void keep_packed(Pack<T, kWidth>&) {}

template <int kWidth, class T>
void load_floats(const T* source, float (&values)[kWidth]) {
  for (int i = 0; i < kWidth; ++i) values[i] = as_float(source[i]);
}

template <class T, int kWidth>
void store_floats(T* destination, const float (&values)[kWidth]) {
  for (int i = 0; i < kWidth; ++i) destination[i] = from_float<T>(values[i]);
}

}  // namespace litespark::cuda
