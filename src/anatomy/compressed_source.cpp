// SPDX-License-Identifier: Apache-2.0
#include "anatomy/compressed_source.h"

#include <zlib.h>

#include "core/error.h"
#include "prepare/byte_stream.h"

namespace litespark::anatomy {
namespace {

void write_gzip(const std::filesystem::path& path, std::span<const uint16_t> ids) {
  const gzFile file = gzopen(path.c_str(), "wb6");
  const auto bytes = static_cast<unsigned>(ids.size_bytes());
  const bool is_written = file != nullptr && gzwrite(file, ids.data(), bytes) == static_cast<int>(bytes);
  const bool is_closed = file != nullptr && gzclose(file) == Z_OK;
  if (!is_written || !is_closed) throw IoError(path.string(), "cannot be written");
}

class CompressedSource final : public BatchSource {
 public:
  CompressedSource(const std::filesystem::path& folder, const BatchShape& shape, std::span<const int32_t> tokens)
      : shape_(shape) {
    const size_t wanted = tokens_of_file();
    if (tokens.size() < wanted) {
      throw InternalError("compressed_source", "fewer tokens than a micro-batch", tokens.size(), wanted);
    }
    for (size_t first = 0; first + wanted <= tokens.size(); first += wanted) {
      const std::vector<uint16_t> ids(tokens.begin() + static_cast<std::ptrdiff_t>(first),
                                      tokens.begin() + static_cast<std::ptrdiff_t>(first + wanted));
      files_.push_back(folder / ("batch-" + std::to_string(files_.size()) + ".gz"));
      write_gzip(files_.back(), ids);
    }
  }

  void fill(uint64_t index, Batch& batch) const override {
    std::vector<uint16_t> ids(tokens_of_file());
    const std::filesystem::path& path = files_[static_cast<size_t>(index) % files_.size()];
    const std::unique_ptr<ByteStream> stream = open_byte_stream(path);
    const std::span<char> bytes(reinterpret_cast<char*>(ids.data()), ids.size() * sizeof(uint16_t));
    for (size_t done = 0; done < bytes.size();) {
      const size_t count = stream->read(bytes.subspan(done));
      if (count == 0) throw DataError(path.string(), "ends too early", done, bytes.size());
      done += count;
    }
    const auto length = static_cast<size_t>(shape_.max_length);
    for (size_t first = 0; first < ids.size(); first += length + 1) {
      batch.row.assign(ids.begin() + static_cast<std::ptrdiff_t>(first),
                       ids.begin() + static_cast<std::ptrdiff_t>(first + length + 1));
      batch.append_shifted(std::span(batch.row).first(length), batch.row[length]);
    }
  }
  uint64_t batches_per_epoch() const override { return files_.size(); }
  std::string fingerprint() const override { return "compressed:" + std::to_string(files_.size()); }

 private:
  /// Each sequence with the label of its last token.
  size_t tokens_of_file() const {
    return static_cast<size_t>(shape_.num_tokens / shape_.max_length * (shape_.max_length + 1));
  }

  BatchShape shape_;
  std::vector<std::filesystem::path> files_;
};

}  // namespace

std::unique_ptr<BatchSource> make_compressed_source(const std::filesystem::path& folder, const BatchShape& shape,
                                                    std::span<const int32_t> tokens) {
  return std::make_unique<CompressedSource>(folder, shape, tokens);
}

}  // namespace litespark::anatomy
