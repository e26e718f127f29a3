// SPDX-License-Identifier: Apache-2.0
// Reading safetensors files: open() checks everything, afterwards only bytes move, into the caller's memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/file.h"
#include "io/safetensors_header.h"

namespace litespark {

class SafetensorsFile {
 public:
  /// Throws IoError when the file cannot be opened or read and DataError when it breaks a rule of the format (see
  /// parse_safetensors_header) or is something else: pickle, zip and GGUF are named, with what to do. Allocates no
  /// more than the header needs.
  static SafetensorsFile open(const std::filesystem::path& path, Symlinks symlinks = Symlinks::kFollow);

  const std::string& file_name() const { return file_.name(); }
  /// Sorted.
  std::vector<std::string> names() const;
  /// Sorted by name.
  const std::vector<SafetensorsTensor>& tensors() const { return header_.tensors; }
  const std::map<std::string, std::string>& metadata() const { return header_.metadata; }
  /// Null when there is no such tensor.
  const SafetensorsTensor* find(std::string_view name) const;
  /// Throws DataError when there is no such tensor.
  const SafetensorsTensor& info(std::string_view name) const;

  /// The tensor's bytes as stored (little-endian); `out` has exactly `info(name).bytes` bytes.
  void read(std::string_view name, std::span<std::byte> out) const;
  /// `out.size()` bytes of the tensor from its byte `first_byte` on.
  void read_bytes(std::string_view name, int64_t first_byte, std::span<std::byte> out) const;
  /// F32, BF16, F16 or F64 as float (F64 rounded), `out` has one float an element; DataError for other dtypes.
  void read_f32(std::string_view name, std::span<float> out) const;

 private:
  SafetensorsFile(InputFile file, SafetensorsHeader header, int64_t data_begin)
      : file_(std::move(file)), header_(std::move(header)), data_begin_(data_begin) {}

  InputFile file_;
  SafetensorsHeader header_;
  int64_t data_begin_ = 0;
};

/// Converts `out.size()` elements of a floating dtype; `bytes` holds exactly these. InternalError for other dtypes.
void convert_to_f32(SafetensorsDType dtype, std::span<const std::byte> bytes, std::span<float> out);

/// True for the dtypes that convert_to_f32 takes.
bool is_float_dtype(SafetensorsDType dtype);

}  // namespace litespark
