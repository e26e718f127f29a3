// SPDX-License-Identifier: Apache-2.0
// Rows of a matrix by number, as untyped pointers for the kernel tables.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/tensor.h"

namespace litespark::cpu {

class Rows {
 public:
  /// An absent tensor has only null rows.
  explicit Rows(const Tensor& tensor)
      : base_(static_cast<std::byte*>(tensor.data)),
        element_bytes_(dtype_bytes(tensor.dtype)),
        row_bytes_(tensor.columns() * element_bytes_) {}

  void* row(int64_t index) const { return base_ == nullptr ? nullptr : base_ + index * row_bytes_; }
  /// Row `index` from its element `column` on.
  void* at(int64_t index, int64_t column) const { return base_ + index * row_bytes_ + column * element_bytes_; }
  int64_t row_bytes() const { return row_bytes_; }

 private:
  std::byte* base_;
  int64_t element_bytes_;
  int64_t row_bytes_;
};

}  // namespace litespark::cpu
