// SPDX-License-Identifier: Apache-2.0
// Tensor: a view of memory that somebody else owns. TensorId: the same thing before memory exists, as a row of a
// program's tensor table. Op argument structs are written once for both (core/op/).
#pragma once

#include <cstdint>

#include "core/dtype.h"
#include "core/shape.h"

namespace litespark {

enum class Device : uint8_t { kCpu, kCuda };

/// A dense row-major view. Owns nothing. A default-constructed tensor is absent (`has_value()` is false).
struct Tensor {
  void* data = nullptr;
  DType dtype = DType::kF32;
  Shape shape;
  Device device = Device::kCpu;

  bool has_value() const { return shape.rank() > 0; }
  int64_t num_elements() const { return shape.num_elements(); }
  int64_t bytes() const { return num_elements() * dtype_bytes(dtype); }
  /// Rows when every dimension but the last is flattened.
  int64_t rows() const { return shape.last() == 0 ? 0 : num_elements() / shape.last(); }
  int64_t columns() const { return shape.last(); }

  /// Typed pointer; the caller has dispatched on `dtype` already. Throws InternalError when the sizes of T and
  /// dtype differ.
  template <class T>
  T* as() const {
    if (static_cast<int64_t>(sizeof(T)) != dtype_bytes(dtype)) {
      throw InternalError("tensor", "element type mismatch", dtype_name(dtype), sizeof(T));
    }
    return static_cast<T*>(data);
  }
};

/// Row of a TensorTable.
struct TensorId {
  int32_t index = -1;

  bool has_value() const { return index >= 0; }
  bool operator==(const TensorId&) const = default;
};

}  // namespace litespark
