// SPDX-License-Identifier: Apache-2.0
#include "core/dtype.h"

namespace litespark {

int64_t dtype_bytes(DType dtype) {
  switch (dtype) {
    case DType::kF32: return 4;
    case DType::kBF16: return 2;
    case DType::kF64: return 8;
    case DType::kI32: return 4;
    case DType::kI64: return 8;
    case DType::kU8: return 1;
    case DType::kU16:
    case DType::kF16: return 2;
    case DType::kE4M3:
    case DType::kE5M2: return 1;
  }
  throw InternalError("dtype_bytes", "unknown dtype", static_cast<int>(dtype), "a DType");
}

std::string_view dtype_name(DType dtype) {
  switch (dtype) {
    case DType::kF32: return "f32";
    case DType::kBF16: return "bf16";
    case DType::kF64: return "f64";
    case DType::kI32: return "i32";
    case DType::kI64: return "i64";
    case DType::kU8: return "u8";
    case DType::kU16: return "u16";
    case DType::kE4M3: return "e4m3";
    case DType::kE5M2: return "e5m2";
    case DType::kF16: return "f16";
  }
  throw InternalError("dtype_name", "unknown dtype", static_cast<int>(dtype), "a DType");
}

DType parse_dtype(std::string_view name) {
  if (name == "f32" || name == "fp32" || name == "float32") return DType::kF32;
  if (name == "bf16" || name == "bfloat16") return DType::kBF16;
  throw ConfigError("dtype", "unknown dtype", name, "f32 or bf16");
}

}  // namespace litespark
