// SPDX-License-Identifier: Apache-2.0
// The safetensors header: what a file says about its tensors, believed only after every rule of the format holds.
// Layout: 8 bytes little-endian header length, the header (a JSON object), then the tensors without a gap.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/shape.h"

namespace litespark {

/// The element types of the format that fill whole bytes; the 4- and 6-bit ones are refused.
enum class SafetensorsDType : uint8_t {
  kBool,
  kU8,
  kI8,
  kF8E4M3,
  kF8E5M2,
  kF8E8M0,
  kI16,
  kU16,
  kF16,
  kBF16,
  kI32,
  kU32,
  kF32,
  kI64,
  kU64,
  kF64,
  kC64,
};

/// "F32", "BF16", ...: as the header spells it.
std::string_view safetensors_dtype_name(SafetensorsDType dtype);
/// Bytes of one element.
int64_t safetensors_dtype_bytes(SafetensorsDType dtype);

struct SafetensorsTensor {
  std::string name;
  SafetensorsDType dtype = SafetensorsDType::kF32;
  std::vector<int64_t> shape;  ///< outermost first; empty: a scalar
  int64_t begin = 0;           ///< first byte, counted from the end of the header
  int64_t bytes = 0;

  int64_t num_elements() const { return bytes / safetensors_dtype_bytes(dtype); }
};

struct SafetensorsHeader {
  std::vector<SafetensorsTensor> tensors;  ///< sorted by name
  std::map<std::string, std::string> metadata;
};

/// The reference implementation's limit on the header.
inline constexpr int64_t kMaxSafetensorsHeaderBytes = 100000000;
/// Ours: more than any model has (a 405B Llama has 1,138), few enough to refuse a bloated header in well under a
/// second.
inline constexpr int64_t kMaxSafetensorsTensors = 100000;
inline constexpr int64_t kMaxSafetensorsRank = 16;

/// A shape as files list it.
std::vector<int64_t> extents(const Shape& shape);

/// Parses the JSON text and checks it against the number of bytes that follow it in the file. Refused with a DataError
/// that starts with `where`: whatever parse_json refuses; anything but an object of {dtype, shape, data_offsets} and
/// __metadata__ of strings; unknown dtypes and keys; a size that differs from shape x dtype or wraps; gaps, overlaps,
/// data before the first or after the last tensor; tensors without elements (nothing in a model needs one, and they
/// can share an offset with another tensor).
SafetensorsHeader parse_safetensors_header(std::string_view text, int64_t data_bytes, std::string_view where);

/// The header's text for these tensors, whose `begin` and `bytes` are set: metadata first, then the tensors in the
/// order given, padded with blanks to a multiple of 8 bytes. Without the length in front.
std::string safetensors_header_text(const SafetensorsHeader& header);

}  // namespace litespark
