// SPDX-License-Identifier: Apache-2.0
#include "support/values.h"

#include <cstring>

#include "core/error.h"
#include "core/fp8.h"
#include "core/rng.h"

namespace litespark::test {
namespace {

template <class T>
void append_bytes(std::vector<std::byte>& bytes, T value) {
  const size_t at = bytes.size();
  bytes.resize(at + sizeof(T));
  std::memcpy(bytes.data() + at, &value, sizeof(T));
}

template <class T>
T value_at(std::span<const std::byte> bytes, size_t index) {
  T value;
  std::memcpy(&value, bytes.data() + index * sizeof(T), sizeof(T));
  return value;
}

/// Straight from double to bf16: rounding through float first could round twice.
bf16 bf16_of(double value) {
  const float nearest = static_cast<float>(value);
  if (static_cast<double>(nearest) == value || nearest != nearest) return to_bf16(nearest);
  // A float that was cut off toward zero and has its last bit set never sits on a tie of bf16 ("round to odd").
  uint32_t bits = std::bit_cast<uint32_t>(nearest);
  const bool away = (nearest > 0) ? static_cast<double>(nearest) > value : static_cast<double>(nearest) < value;
  if (away) --bits;
  return to_bf16(std::bit_cast<float>(bits | 1u));
}

}  // namespace

const std::vector<double>& Values::at(std::string_view name) const {
  const auto found = tensors.find(name);
  if (found == tensors.end()) throw InternalError("test values", "no such tensor", name, "a tensor of the case");
  return found->second;
}

double round_to(DType dtype, double value) {
  switch (dtype) {
    case DType::kF32: return static_cast<double>(static_cast<float>(value));
    case DType::kBF16: return static_cast<double>(to_float(bf16_of(value)));
    case DType::kF16: return static_cast<double>(to_float(to_fp16(static_cast<float>(value))));
    case DType::kF64: return value;
    case DType::kI32:
    case DType::kI64:
    case DType::kU8:
    case DType::kU16: return static_cast<double>(static_cast<int64_t>(value));
    case DType::kE4M3:
    case DType::kE5M2: return static_cast<double>(fp8_to_float(dtype, to_fp8(dtype, static_cast<float>(value))));
  }
  return value;
}

std::vector<std::byte> encode(DType dtype, std::span<const double> values) {
  std::vector<std::byte> bytes;
  bytes.reserve(values.size() * static_cast<size_t>(dtype_bytes(dtype)));
  for (const double value : values) {
    switch (dtype) {
      case DType::kF32: append_bytes(bytes, static_cast<float>(value)); break;
      case DType::kBF16: append_bytes(bytes, bf16_of(value)); break;
      case DType::kF16: append_bytes(bytes, to_fp16(static_cast<float>(value))); break;
      case DType::kF64: append_bytes(bytes, value); break;
      case DType::kI32: append_bytes(bytes, static_cast<int32_t>(value)); break;
      case DType::kI64: append_bytes(bytes, static_cast<int64_t>(value)); break;
      case DType::kU8: append_bytes(bytes, static_cast<uint8_t>(value)); break;
      case DType::kU16: append_bytes(bytes, static_cast<uint16_t>(value)); break;
      case DType::kE4M3:
      case DType::kE5M2: append_bytes(bytes, to_fp8(dtype, static_cast<float>(value))); break;
    }
  }
  return bytes;
}

std::vector<double> decode(DType dtype, std::span<const std::byte> bytes) {
  const size_t count = bytes.size() / static_cast<size_t>(dtype_bytes(dtype));
  std::vector<double> values(count);
  for (size_t i = 0; i < count; ++i) {
    switch (dtype) {
      case DType::kF32: values[i] = static_cast<double>(value_at<float>(bytes, i)); break;
      case DType::kBF16: values[i] = static_cast<double>(to_float(value_at<bf16>(bytes, i))); break;
      case DType::kF16: values[i] = static_cast<double>(to_float(value_at<fp16>(bytes, i))); break;
      case DType::kF64: values[i] = value_at<double>(bytes, i); break;
      case DType::kI32: values[i] = value_at<int32_t>(bytes, i); break;
      case DType::kI64: values[i] = static_cast<double>(value_at<int64_t>(bytes, i)); break;
      case DType::kU8: values[i] = value_at<uint8_t>(bytes, i); break;
      case DType::kU16: values[i] = value_at<uint16_t>(bytes, i); break;
      case DType::kE4M3:
      case DType::kE5M2: values[i] = static_cast<double>(fp8_to_float(dtype, value_at<uint8_t>(bytes, i))); break;
    }
  }
  return values;
}

std::vector<double> random_normal(DType dtype, int64_t size, uint64_t seed, double scale) {
  const RandomStream stream(seed, 1);
  std::vector<double> values(static_cast<size_t>(size));
  for (size_t i = 0; i < values.size(); ++i) values[i] = round_to(dtype, scale * stream.normal(i));
  return values;
}

std::vector<double> random_integers(int64_t size, uint64_t seed, int64_t bound) {
  const RandomStream stream(seed, 2);
  std::vector<double> values(static_cast<size_t>(size));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<double>(stream.below(i, static_cast<uint64_t>(bound)));
  }
  return values;
}

}  // namespace litespark::test
