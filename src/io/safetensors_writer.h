// SPDX-License-Identifier: Apache-2.0
// Writing safetensors files one tensor after the other: names, dtypes and shapes are declared first, so the header can
// stand in front while no more than one piece of one tensor is in memory.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/dtype.h"
#include "io/file.h"
#include "io/safetensors_header.h"

namespace litespark {

class SafetensorsWriter {
 public:
  struct Declaration {
    std::string name;
    SafetensorsDType dtype = SafetensorsDType::kF32;
    std::vector<int64_t> shape;
  };

  /// Writes the header under a temporary name. Tensors are laid out by element size, largest first, then by name, as
  /// the reference implementation does: the file depends on its content alone, and every tensor is aligned. Throws
  /// IoError; InternalError for names that are empty, doubled, reserved or not UTF-8, and for shapes without elements.
  SafetensorsWriter(const std::filesystem::path& path, std::vector<Declaration> tensors,
                    const std::map<std::string, std::string>& metadata = {{"format", "pt"}});

  /// The order in which write() wants the tensors.
  const std::vector<SafetensorsTensor>& order() const { return header_.tensors; }

  /// The next bytes of this tensor, which is the first one that is not complete; a tensor may come in pieces.
  void write(std::string_view name, std::span<const std::byte> bytes);
  /// The next elements of this tensor, converted to its dtype (F32 or BF16, rounded to nearest even).
  void write_f32(std::string_view name, std::span<const float> values);

  /// Bytes of the whole file.
  int64_t file_bytes() const { return file_bytes_; }
  /// Syncs and renames; InternalError when a tensor is missing.
  void commit();

 private:
  SafetensorsHeader header_;
  size_t next_ = 0;         ///< index in order()
  int64_t next_bytes_ = 0;  ///< written of it
  int64_t file_bytes_ = 0;
  AtomicFile file_;
};

/// F32 or BF16; InternalError for other dtypes.
SafetensorsDType safetensors_dtype_of(DType dtype);

}  // namespace litespark
