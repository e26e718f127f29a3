// SPDX-License-Identifier: Apache-2.0
// The extents of a tensor: up to four, row-major, the last one contiguous.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>

namespace litespark {

class Shape {
 public:
  static constexpr int kMaxRank = 4;

  /// Rank 0 means "no tensor here"; a scalar is [1].
  Shape() = default;
  /// Throws InternalError on more than kMaxRank extents, on a negative one, or when the product wraps 63 bits.
  Shape(std::initializer_list<int64_t> extents);

  /// Appends an extent, with the same checks.
  void append(int64_t extent);

  int rank() const { return rank_; }
  int64_t operator[](int dim) const { return extents_[static_cast<size_t>(dim)]; }
  int64_t last() const { return rank_ == 0 ? 0 : extents_[static_cast<size_t>(rank_ - 1)]; }
  /// Product of the extents; 0 for rank 0.
  int64_t num_elements() const { return num_elements_; }
  /// "[3, 4]".
  std::string to_string() const;

  bool operator==(const Shape&) const = default;

 private:
  std::array<int64_t, kMaxRank> extents_{};
  int rank_ = 0;
  int64_t num_elements_ = 0;
};

}  // namespace litespark
