// SPDX-License-Identifier: Apache-2.0
// The messages of contract checks: which op, which tensor, what was found and what was expected.
#include "ops/op_check.h"

#include <algorithm>
#include <string>

#include "core/error.h"
#include "core/step_state.h"

namespace litespark {

void OpCheck::present(std::string_view name, const Tensor& tensor) const {
  if (!tensor.has_value()) throw InternalError(op_, std::string(name) + " is missing", "no tensor", "a tensor");
}

void OpCheck::dtype(std::string_view name, const Tensor& tensor, std::initializer_list<DType> allowed) const {
  present(name, tensor);
  if (std::find(allowed.begin(), allowed.end(), tensor.dtype) != allowed.end()) return;
  std::string expected;
  for (const DType candidate : allowed)
    expected += (expected.empty() ? "" : " or ") + std::string(dtype_name(candidate));
  throw InternalError(op_, std::string(name) + " has the wrong dtype", dtype_name(tensor.dtype), expected);
}

void OpCheck::floating(std::string_view name, const Tensor& tensor) const {
  dtype(name, tensor, {DType::kF32, DType::kBF16});
}

void OpCheck::same_dtype(std::string_view name, const Tensor& tensor, const Tensor& like) const {
  floating(name, tensor);
  dtype(name, tensor, {like.dtype});
}

void OpCheck::matrix(std::string_view name, const Tensor& tensor, int64_t rows, int64_t columns) const {
  present(name, tensor);
  if (tensor.rows() == rows && tensor.columns() == columns) return;
  throw InternalError(op_, std::string(name) + " has the wrong shape", tensor.shape.to_string(),
                      Shape{rows, columns}.to_string());
}

void OpCheck::elements(std::string_view name, const Tensor& tensor, int64_t count) const {
  present(name, tensor);
  if (tensor.num_elements() == count) return;
  throw InternalError(op_, std::string(name) + " has the wrong size", tensor.shape.to_string(),
                      std::to_string(count) + " elements");
}

void OpCheck::room(std::string_view name, const Tensor& tensor, int64_t count) const {
  present(name, tensor);
  if (tensor.num_elements() >= count) return;
  throw InternalError(op_, std::string(name) + " is too small", tensor.shape.to_string(),
                      "at least " + std::to_string(count) + " elements");
}

void OpCheck::step_state(std::string_view name, const Tensor& tensor) const {
  dtype(name, tensor, {DType::kU8});
  elements(name, tensor, static_cast<int64_t>(sizeof(StepState)));
}

void OpCheck::positive(std::string_view name, int64_t value) const {
  if (value <= 0) throw InternalError(op_, std::string(name) + " is out of range", value, "1 or more");
}

void OpCheck::that(bool holds, std::string_view what) const {
  if (!holds) throw InternalError(op_, what);
}

}  // namespace litespark
