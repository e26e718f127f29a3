// SPDX-License-Identifier: Apache-2.0
// Exponentials over any of the Vec16 types: one polynomial and one order of operations on every instruction set.
#pragma once

namespace litespark::cpu {

/// 2^fraction 2^whole for |fraction| <= 1/2 and integer `whole` in [-126, 128]. Near-minimax in relative error with a
/// constant term of 1, so that powers of two are exact: 3.0e-9 for degree 6, 9.4e-8 for degree 5, before rounding.
template <int kDegree, class Vec>
inline Vec exp2_of_parts(Vec fraction, Vec whole) {
  static_assert(kDegree == 5 || kDegree == 6);
  Vec value;
  if constexpr (kDegree == 6) {
    value = Vec::broadcast(0.0001532645692350343f);
    value = fma(value, fraction, Vec::broadcast(0.0013390807434916496f));
    value = fma(value, fraction, Vec::broadcast(0.009618505835533142f));
    value = fma(value, fraction, Vec::broadcast(0.05550359934568405f));
    value = fma(value, fraction, Vec::broadcast(0.24022647738456726f));
    value = fma(value, fraction, Vec::broadcast(0.6931471824645996f));
  } else {
    value = Vec::broadcast(0.0013269390910863876f);
    value = fma(value, fraction, Vec::broadcast(0.009671295061707497f));
    value = fma(value, fraction, Vec::broadcast(0.0555071122944355f));
    value = fma(value, fraction, Vec::broadcast(0.24022246897220612f));
    value = fma(value, fraction, Vec::broadcast(0.6931470036506653f));
  }
  value = fma(value, fraction, Vec::broadcast(1.0f));
  return times_power_of_two(value, whole);
}

/// 2^x; 0 below the smallest normal number, infinity from 128 on, NaN for NaN.
template <int kDegree = 6, class Vec>
inline Vec vec_exp2(Vec x) {
  const Vec lowest = Vec::broadcast(-126.0f);
  // The operand order of min and max lets a NaN through.
  const Vec clamped = max(lowest, min(Vec::broadcast(128.0f), x));
  const Vec whole = round(clamped);
  const Vec result = exp2_of_parts<kDegree>(clamped - whole, whole);
  return select(less(x, lowest), Vec::zero(), result);
}

/// e^x; 0 where the result would not be a normal number, infinity where it would not be finite, NaN for NaN.
template <int kDegree = 6, class Vec>
inline Vec vec_exp(Vec x) {
  const Vec lowest = Vec::broadcast(-87.336540f);
  const Vec highest = Vec::broadcast(88.722832f);
  const Vec clamped = max(lowest, min(highest, x));
  const Vec log2_e = Vec::broadcast(1.44269504f);
  const Vec whole = round(clamped * log2_e);
  // ln 2 in two parts, the first of so few bits that its multiples are exact with and without a fused multiply-add.
  const Vec rest =
      negative_fma(whole, Vec::broadcast(-2.12194440e-4f), negative_fma(whole, Vec::broadcast(0.693359375f), clamped));
  Vec result = exp2_of_parts<kDegree>(rest * log2_e, whole);
  result = select(less(x, lowest), Vec::zero(), result);
  return select(less(highest, x), Vec::broadcast(__builtin_inff()), result);
}

/// e^x for x that cannot be large, as a difference from a maximum: no test for the ends. Below -87.3 the smallest
/// normal number, not 0. Two terms for log2 e: a constant's own rounding error would bias every weight the same way.
template <int kDegree = 6, class Vec>
inline Vec vec_exp_of_difference(Vec x) {
  const Vec clamped = max(Vec::broadcast(-87.336540f), x);
  const Vec log2_e = Vec::broadcast(1.4426950216293335f);
  const Vec whole = round(clamped * log2_e);
  const Vec fraction = fma(clamped, Vec::broadcast(1.92596299e-8f), fma(clamped, log2_e, Vec::zero() - whole));
  return exp2_of_parts<kDegree>(fraction, whole);
}

/// 2^x for x that cannot be large, without a test for the ends: below -126 the smallest normal number, not 0.
template <int kDegree, class Vec>
inline Vec vec_exp2_of_difference(Vec x) {
  const Vec clamped = max(Vec::broadcast(-126.0f), x);
  const Vec whole = round(clamped);
  return exp2_of_parts<kDegree>(clamped - whole, whole);
}

}  // namespace litespark::cpu
