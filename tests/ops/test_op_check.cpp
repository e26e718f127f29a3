// SPDX-License-Identifier: Apache-2.0
// Every check throws, and its message names op, tensor, what was found and what was expected.
#include <gtest/gtest.h>

#include "core/step_state.h"
#include "ops/op_check.h"
#include "support/op_case.h"

namespace litespark::test {
namespace {

template <class Body>
std::string message_of(const Body& body) {
  try {
    body(OpCheck("some_op"));
  } catch (const InternalError& error) {
    return error.what();
  }
  return "no error";
}

TEST(OpCheck, NamesWhatIsWrong) {
  const Tensor matrix = shape_only(DType::kF32, {2, 3});
  EXPECT_EQ(message_of([](const OpCheck& check) { check.present("x", {}); }),
            "[some_op] x is missing; got no tensor, expected a tensor");
  EXPECT_EQ(message_of([&](const OpCheck& check) {
              check.dtype("x", matrix, {DType::kI32, DType::kU8});
            }),
            "[some_op] x has the wrong dtype; got f32, expected i32 or u8");
  EXPECT_EQ(message_of([&](const OpCheck& check) { check.same_dtype("x", matrix, shape_only(DType::kBF16, {1})); }),
            "[some_op] x has the wrong dtype; got f32, expected bf16");
  EXPECT_EQ(message_of([&](const OpCheck& check) { check.matrix("x", matrix, 3, 2); }),
            "[some_op] x has the wrong shape; got [2, 3], expected [3, 2]");
  EXPECT_EQ(message_of([&](const OpCheck& check) { check.elements("x", matrix, 7); }),
            "[some_op] x has the wrong size; got [2, 3], expected 7 elements");
  EXPECT_EQ(message_of([&](const OpCheck& check) { check.room("x", matrix, 7); }),
            "[some_op] x is too small; got [2, 3], expected at least 7 elements");
  EXPECT_EQ(message_of([](const OpCheck& check) { check.positive("head_dim", 0); }),
            "[some_op] head_dim is out of range; got 0, expected 1 or more");
  EXPECT_EQ(message_of([](const OpCheck& check) { check.that(false, "window is negative"); }),
            "[some_op] window is negative");
  EXPECT_NE(message_of([&](const OpCheck& check) { check.step_state("state", matrix); }), "no error");
  EXPECT_NE(message_of([](const OpCheck& check) { check.floating("x", shape_only(DType::kI32, {2})); }), "no error");
}

TEST(OpCheck, PassesWhatIsRight) {
  const Tensor matrix = shape_only(DType::kF32, {2, 3, 4});
  EXPECT_EQ(message_of([&](const OpCheck& check) {
              check.floating("x", matrix);
              check.matrix("x", matrix, 6, 4);
              check.elements("x", matrix, 24);
              check.room("x", matrix, 23);
              check.step_state("state", state_shape());
              check.positive("rows", 1);
              check.that(true, "nothing");
            }),
            "no error");
}

}  // namespace
}  // namespace litespark::test
