// SPDX-License-Identifier: Apache-2.0
// Element types of tensors, and the one dispatch from a run-time dtype to a compile-time type.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/bf16.h"
#include "core/error.h"
#include "core/fp16.h"

namespace litespark {

enum class DType : uint8_t { kF32, kBF16, kF64, kI32, kI64, kU8, kU16, kE4M3, kE5M2, kF16 };

/// Bytes of one element.
int64_t dtype_bytes(DType dtype);

/// "f32", "bf16", "f64", "i32", "i64", "u8", "u16", "e4m3", "e5m2", "f16".
std::string_view dtype_name(DType dtype);

/// Accepts "f32" and "bf16", also as "fp32", "float32", "bfloat16"; throws ConfigError otherwise.
DType parse_dtype(std::string_view name);

/// The C++ type carried by value to generic lambdas: `[](auto tag) { using T = typename decltype(tag)::type; }`.
template <class T>
struct TypeTag {
  using type = T;
};

/// Calls `body(TypeTag<float>{})` or `body(TypeTag<bf16>{})`; `where` names the op in the error for other dtypes.
template <class Body>
decltype(auto) visit_float_dtype(std::string_view where, DType dtype, Body&& body) {
  switch (dtype) {
    case DType::kF32: return body(TypeTag<float>{});
    case DType::kBF16: return body(TypeTag<bf16>{});
    default: throw InternalError(where, "dtype not supported", dtype_name(dtype), "f32 or bf16");
  }
}

inline float load_float(float value) {
  return value;
}
inline float load_float(bf16 value) {
  return to_float(value);
}
inline float load_float(fp16 value) {
  return to_float(value);
}
inline void store_float(float& out, float value) {
  out = value;
}
inline void store_float(bf16& out, float value) {
  out = to_bf16(value);
}

}  // namespace litespark
