// SPDX-License-Identifier: Apache-2.0
// Columns of a matrix as a matrix of their own, which can travel, and back.
#pragma once

#include <cstdint>
#include <string_view>

namespace litespark::op {

/// out [N, W] = columns first_column .. first_column + W of x [N, X]. The same dtype, f32 or bf16.
template <class T>
struct TakeColumns {
  static constexpr std::string_view kName = "take_columns";
  T out, x;
  int64_t first_column = 0;

  template <class F>
  auto map(F&& f) const {
    return TakeColumns<decltype(f.in("x", x))>{
        .out = f.out("out", out), .x = f.in("x", x), .first_column = first_column};
  }
};

/// out [N, A + B] = left [N, A] and right [N, B] beside each other, rounded to out's dtype. left, right f32; out f32 or
/// bf16.
template <class T>
struct JoinColumns {
  static constexpr std::string_view kName = "join_columns";
  T out, left, right;

  template <class F>
  auto map(F&& f) const {
    return JoinColumns<decltype(f.in("left", left))>{
        .out = f.out("out", out), .left = f.in("left", left), .right = f.in("right", right)};
  }
};

}  // namespace litespark::op
