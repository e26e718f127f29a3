// SPDX-License-Identifier: Apache-2.0
#include "core/shape.h"

#include "core/checked.h"
#include "core/error.h"

namespace litespark {

Shape::Shape(std::initializer_list<int64_t> extents) {
  for (const int64_t extent : extents) append(extent);
}

void Shape::append(int64_t extent) {
  if (rank_ == kMaxRank) throw InternalError("shape", "too many dimensions", rank_ + 1, kMaxRank);
  if (extent < 0) throw InternalError("shape", "negative extent", extent, "0 or more");
  const auto product = checked_mul(rank_ == 0 ? 1 : num_elements_, extent);
  if (!product) throw InternalError("shape", "number of elements overflows", to_string(), "less than 2^63");
  extents_[static_cast<size_t>(rank_++)] = extent;
  num_elements_ = *product;
}

std::string Shape::to_string() const {
  std::string text = "[";
  for (int dim = 0; dim < rank_; ++dim) {
    if (dim > 0) text += ", ";
    text += std::to_string((*this)[dim]);
  }
  return text + "]";
}

}  // namespace litespark
