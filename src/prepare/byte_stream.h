// SPDX-License-Identifier: Apache-2.0
// A file's bytes in order, decompressed when its content says gzip or zstd. The format is told by the magic number,
// never by the name.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>

namespace litespark {

class ByteStream {
 public:
  virtual ~ByteStream() = default;
  /// Fills up to out.size() bytes; 0 at the end. Throws DataError on damaged or truncated data, IoError.
  virtual size_t read(std::span<char> out) = 0;
  /// Bytes of the file consumed so far, for progress.
  virtual int64_t file_bytes_read() const = 0;
};

std::unique_ptr<ByteStream> open_byte_stream(const std::filesystem::path& path);

}  // namespace litespark
