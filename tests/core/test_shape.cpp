// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "core/error.h"
#include "core/shape.h"

namespace litespark {
namespace {

TEST(Shape, CountsElementsAndPrintsItself) {
  const Shape shape{2, 3, 5};
  EXPECT_EQ(shape.num_elements(), 30);
  EXPECT_EQ(shape.last(), 5);
  EXPECT_EQ(shape.to_string(), "[2, 3, 5]");
  EXPECT_EQ(Shape{}.num_elements(), 0);
}

TEST(Shape, RefusesProductsThatWrap) {
  EXPECT_THROW((Shape{int64_t{1} << 32, int64_t{1} << 32}), InternalError);
  EXPECT_NO_THROW((Shape{int64_t{1} << 31, int64_t{1} << 31}));
}

TEST(Shape, RefusesNegativeExtentsAndTooManyDimensions) {
  EXPECT_THROW((Shape{-1}), InternalError);
  EXPECT_THROW((Shape{1, 1, 1, 1, 1}), InternalError);
}

}  // namespace
}  // namespace litespark
