// SPDX-License-Identifier: Apache-2.0
#include "prepare/byte_stream.h"

#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "io/file.h"

namespace litespark {
namespace {

constexpr size_t kChunkBytes = size_t{1} << 18;
/// zstd frames may ask for a window of up to 2 GiB; nothing that we read needs more than this.
constexpr int kMaxZstdWindowLog = 27;

class PlainStream final : public ByteStream {
 public:
  explicit PlainStream(InputFile file) : file_(std::move(file)) {}
  size_t read(std::span<char> out) override {
    const auto left = static_cast<size_t>(file_.size() - position_);
    const std::span<char> part = out.first(std::min(out.size(), left));
    file_.read_at(position_, std::as_writable_bytes(part));
    position_ += static_cast<int64_t>(part.size());
    return part.size();
  }
  int64_t file_bytes_read() const override { return position_; }
  const std::string& name() const { return file_.name(); }
  bool at_end() const { return position_ == file_.size(); }

 private:
  InputFile file_;
  int64_t position_ = 0;
};

class GzipStream final : public ByteStream {
 public:
  explicit GzipStream(InputFile file) : input_(std::move(file)), buffer_(kChunkBytes) {
    // 32: gzip or zlib header, told apart by zlib; 15: the largest window.
    if (inflateInit2(&stream_, 32 + 15) != Z_OK) throw InternalError(input_.name(), "zlib cannot be initialised");
  }
  ~GzipStream() override { inflateEnd(&stream_); }
  GzipStream(const GzipStream&) = delete;
  GzipStream& operator=(const GzipStream&) = delete;

  size_t read(std::span<char> out) override {
    stream_.next_out = reinterpret_cast<Bytef*>(out.data());
    stream_.avail_out = static_cast<uInt>(std::min(out.size(), kChunkBytes));
    const uInt wanted = stream_.avail_out;
    while (stream_.avail_out == wanted && !is_done_) step();
    return wanted - stream_.avail_out;
  }
  int64_t file_bytes_read() const override { return input_.file_bytes_read(); }

 private:
  void step() {
    if (stream_.avail_in == 0) {
      stream_.next_in = reinterpret_cast<Bytef*>(buffer_.data());
      stream_.avail_in = static_cast<uInt>(input_.read(buffer_));
      if (stream_.avail_in == 0) {
        if (is_between_members_) {
          is_done_ = true;
          return;
        }
        throw DataError(input_.name(), "the gzip data ends too early");
      }
    }
    if (std::exchange(is_between_members_, false) && inflateReset(&stream_) != Z_OK) {
      throw InternalError(input_.name(), "zlib cannot be reset");
    }
    const int status = inflate(&stream_, Z_NO_FLUSH);
    if (status == Z_STREAM_END) {
      is_between_members_ = true;
    } else if (status != Z_OK && status != Z_BUF_ERROR) {
      throw DataError(input_.name(), std::string("damaged gzip data: ") + (stream_.msg == nullptr ? "" : stream_.msg));
    }
  }

  PlainStream input_;
  std::vector<char> buffer_;
  z_stream stream_{};
  bool is_between_members_ = false;
  bool is_done_ = false;
};

class ZstdStream final : public ByteStream {
 public:
  explicit ZstdStream(InputFile file) : input_(std::move(file)), buffer_(kChunkBytes), context_(ZSTD_createDCtx()) {
    if (context_ == nullptr) throw InternalError(input_.name(), "zstd cannot be initialised");
    ZSTD_DCtx_setParameter(context_, ZSTD_d_windowLogMax, kMaxZstdWindowLog);
  }
  ~ZstdStream() override { ZSTD_freeDCtx(context_); }
  ZstdStream(const ZstdStream&) = delete;
  ZstdStream& operator=(const ZstdStream&) = delete;

  size_t read(std::span<char> out) override {
    ZSTD_outBuffer output{.dst = out.data(), .size = out.size(), .pos = 0};
    while (output.pos == 0) {
      if (chunk_.pos == chunk_.size) {
        chunk_ = {.src = buffer_.data(), .size = input_.read(buffer_), .pos = 0};
        if (chunk_.size == 0) {
          if (!is_frame_complete_) throw DataError(input_.name(), "the zstd data ends too early");
          return 0;
        }
      }
      const size_t status = ZSTD_decompressStream(context_, &output, &chunk_);
      if (ZSTD_isError(status) != 0) {
        throw DataError(input_.name(), std::string("damaged zstd data: ") + ZSTD_getErrorName(status));
      }
      is_frame_complete_ = status == 0;
    }
    return output.pos;
  }
  int64_t file_bytes_read() const override { return input_.file_bytes_read(); }

 private:
  PlainStream input_;
  std::vector<char> buffer_;
  ZSTD_DCtx* context_;
  ZSTD_inBuffer chunk_{};
  bool is_frame_complete_ = true;
};

}  // namespace

std::unique_ptr<ByteStream> open_byte_stream(const std::filesystem::path& path) {
  InputFile file(path);
  std::array<std::byte, 4> magic{};
  if (file.size() >= 4) file.read_at(0, magic);
  if (magic[0] == std::byte{0x1f} && magic[1] == std::byte{0x8b}) return std::make_unique<GzipStream>(std::move(file));
  if (magic == std::array{std::byte{0x28}, std::byte{0xb5}, std::byte{0x2f}, std::byte{0xfd}}) {
    return std::make_unique<ZstdStream>(std::move(file));
  }
  return std::make_unique<PlainStream>(std::move(file));
}

}  // namespace litespark
