// SPDX-License-Identifier: Apache-2.0
// Loads and stores of a few neighbouring elements as floats: 16-byte accesses where eight bf16 or four floats are
// whole, single elements else. A kernel is written once with kWidth and instantiated for 8 and 1.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/bf16.h"
#include "core/fp16.h"

namespace litespark::cuda {

/// Elements of one vector access of the streaming kernels.
inline constexpr int kVectorWidth = 8;

__device__ inline float as_float(float value) {
  return value;
}
__device__ inline float as_float(bf16 value) {
  return __uint_as_float(static_cast<uint32_t>(value.bits) << 16);
}

__device__ inline float as_float(fp16 value) {
  float wide;
  asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(value.bits));
  return wide;
}

/// Two floats rounded to nearest even and packed, `low` in the low half.
__device__ inline uint32_t pack_bf16(float low, float high) {
  uint32_t packed;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}

/// Elementwise maximum of two packed pairs; NaN loses.
__device__ inline uint32_t max_bf16(uint32_t a, uint32_t b) {
  uint32_t packed;
  asm("max.bf16x2 %0, %1, %2;" : "=r"(packed) : "r"(a), "r"(b));
  return packed;
}

template <class T>
__device__ T from_float(float value);
template <>
__device__ inline float from_float<float>(float value) {
  return value;
}
template <>
__device__ inline bf16 from_float<bf16>(float value) {
  return {static_cast<uint16_t>(pack_bf16(value, 0.0f))};
}

/// What memory would give back for `value` stored as T.
template <class T>
__device__ float rounded(float value) {
  return as_float(from_float<T>(value));
}

/// kWidth elements in their storage form: what is held in registers between a load and its use.
template <class T, int kWidth>
struct alignas(sizeof(T) * kWidth > 16 ? 16 : sizeof(T) * kWidth) Pack {
  T elements[kWidth];

  __device__ float operator[](int i) const { return as_float(elements[i]); }
};

/// Makes the compiler forget what it knows about `pack`, so that it keeps the packed words alive across a barrier and
/// not the floats already unpacked from them: half the registers with bf16, nothing to win with f32.
template <class T>
__device__ void keep_packed(Pack<T, kVectorWidth>& pack) {
  if constexpr (std::is_same_v<T, bf16>) {
    uint32_t(&words)[kVectorWidth / 2] = reinterpret_cast<uint32_t(&)[kVectorWidth / 2]>(pack);
#pragma unroll
    for (uint32_t& word : words) asm volatile("" : "+r"(word));
  }
}

template <int kWidth, class T>
__device__ Pack<T, kWidth> load_pack(const T* source) {
  return *reinterpret_cast<const Pack<T, kWidth>*>(source);
}

/// Largest element; NaN is passed over.
template <class T, int kWidth>
__device__ float largest_of(const Pack<T, kWidth>& pack) {
  if constexpr (std::is_same_v<T, bf16> && kWidth == kVectorWidth) {
    const uint32_t(&words)[kWidth / 2] = reinterpret_cast<const uint32_t(&)[kWidth / 2]>(pack);
    const uint32_t pair = max_bf16(max_bf16(words[0], words[1]), max_bf16(words[2], words[3]));
    return fmaxf(__uint_as_float(pair << 16), __uint_as_float(pair & 0xffff0000u));
  } else {
    float largest = pack[0];
#pragma unroll
    for (int i = 1; i < kWidth; ++i) largest = fmaxf(largest, pack[i]);
    return largest;
  }
}

template <int kWidth, class T>
__device__ void load_floats(const T* source, float (&values)[kWidth]) {
  const Pack<T, kWidth> pack = load_pack<kWidth>(source);
#pragma unroll
  for (int i = 0; i < kWidth; ++i) values[i] = pack[i];
}

template <int kWidth>
__device__ void store_floats(float* destination, const float (&values)[kWidth]) {
  Pack<float, kWidth> pack;
#pragma unroll
  for (int i = 0; i < kWidth; ++i) pack.elements[i] = values[i];
  *reinterpret_cast<Pack<float, kWidth>*>(destination) = pack;
}

template <int kWidth>
__device__ void store_floats(bf16* destination, const float (&values)[kWidth]) {
  if constexpr (kWidth == 1) {
    *destination = from_float<bf16>(values[0]);
  } else {
    uint32_t words[kWidth / 2];
#pragma unroll
    for (int i = 0; i < kWidth / 2; ++i) words[i] = pack_bf16(values[2 * i], values[2 * i + 1]);
    if constexpr (kWidth == 8) {
      *reinterpret_cast<uint4*>(destination) = make_uint4(words[0], words[1], words[2], words[3]);
    } else {
      static_assert(kWidth == 4 || kWidth == 1);
      *reinterpret_cast<uint2*>(destination) = make_uint2(words[0], words[1]);
    }
  }
}

}  // namespace litespark::cuda
