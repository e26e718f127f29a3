// SPDX-License-Identifier: Apache-2.0
// Reads use pread, not a mapping: a file that shrinks under us is then an error with a name instead of a SIGBUS.
#include "io/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "core/bf16.h"
#include "core/error.h"
#include "core/fp16.h"
#include "core/quote.h"

static_assert(std::endian::native == std::endian::little, "safetensors data are little-endian");

namespace litespark {
namespace {

constexpr int64_t kLengthBytes = 8;
constexpr size_t kPieceBytes = size_t{1} << 20;

struct ForeignFormat {
  std::string_view magic;
  const char* found;
  const char* advice;
};

constexpr const char* kConvertPickle =
    "pickled weights can run code and are never read; load them in PyTorch and save them with safetensors";

constexpr std::array<ForeignFormat, 9> kForeignFormats = {
    {{{"PK\x03\x04", 4}, "a zip archive (PyTorch .pt/.bin/.pth)", kConvertPickle},
     {{"\x80\x02", 2}, "a pickle", kConvertPickle},
     {{"\x80\x03", 2}, "a pickle", kConvertPickle},
     {{"\x80\x04", 2}, "a pickle", kConvertPickle},
     {{"\x80\x05", 2}, "a pickle", kConvertPickle},
     {{"GGUF", 4}, "a GGUF file", "use the Hugging Face folder that it was made from"},
     {{"\x93NUMPY", 6}, "a NumPy file", "save it with safetensors"},
     {{"\x1f\x8b", 2}, "a gzip file", "unpack it first"},
     {{"version https://git-lfs", 23}, "a Git LFS pointer", "fetch the real file with `git lfs pull`"}}};

void refuse_foreign_format(const std::string& where, std::string_view start) {
  for (const ForeignFormat& format : kForeignFormats) {
    if (start.starts_with(format.magic)) {
      throw DataError(where, "is not a safetensors file", format.found, "safetensors", format.advice);
    }
  }
}

template <class Stored, class Convert>
void convert_each(std::span<const std::byte> bytes, std::span<float> out, Convert convert) {
  for (size_t i = 0; i < out.size(); ++i) {
    Stored value;
    std::memcpy(&value, bytes.data() + i * sizeof(Stored), sizeof(Stored));
    out[i] = convert(value);
  }
}

}  // namespace

SafetensorsFile SafetensorsFile::open(const std::filesystem::path& path, Symlinks symlinks) {
  InputFile file(path, symlinks);
  std::array<char, 32> start{};
  const auto start_size = static_cast<size_t>(std::min<int64_t>(file.size(), std::ssize(start)));
  file.read_at(0, std::as_writable_bytes(std::span(start)).first(start_size));
  const std::string_view start_text(start.data(), start_size);
  const bool has_header = start_size > kLengthBytes && start[kLengthBytes] == '{';
  if (!has_header) refuse_foreign_format(file.name(), start_text);
  if (file.size() < kLengthBytes) {
    throw DataError(file.name(), "is too short for safetensors", fmt::format("{} bytes", file.size()), "8 or more");
  }
  uint64_t length = 0;
  std::memcpy(&length, start.data(), sizeof(length));
  const int64_t available = file.size() - kLengthBytes;
  if (length > static_cast<uint64_t>(kMaxSafetensorsHeaderBytes)) {
    throw DataError(file.name(), "has a header that is too long", length,
                    fmt::format("at most {}", kMaxSafetensorsHeaderBytes));
  }
  const auto header_bytes = static_cast<int64_t>(length);
  if (header_bytes > available) {
    throw DataError(file.name(), "has a header longer than the file", header_bytes,
                    fmt::format("at most {}", available));
  }
  if (!has_header || header_bytes < 2) throw DataError(file.name(), "has a header that is not a JSON object");
  std::string text(static_cast<size_t>(header_bytes), '\0');
  file.read_at(kLengthBytes, std::as_writable_bytes(std::span(text)));
  SafetensorsHeader header = parse_safetensors_header(text, available - header_bytes, file.name());
  return {std::move(file), std::move(header), kLengthBytes + header_bytes};
}

std::vector<std::string> SafetensorsFile::names() const {
  std::vector<std::string> names;
  names.reserve(header_.tensors.size());
  for (const SafetensorsTensor& tensor : header_.tensors) names.push_back(tensor.name);
  return names;
}

const SafetensorsTensor* SafetensorsFile::find(std::string_view name) const {
  const auto found =
      std::lower_bound(header_.tensors.begin(), header_.tensors.end(), name,
                       [](const SafetensorsTensor& tensor, std::string_view n) { return tensor.name < n; });
  return found != header_.tensors.end() && found->name == name ? &*found : nullptr;
}

const SafetensorsTensor& SafetensorsFile::info(std::string_view name) const {
  const SafetensorsTensor* const tensor = find(name);
  if (tensor == nullptr) throw DataError(file_.name(), fmt::format("has no tensor {}", quote(name)));
  return *tensor;
}

void SafetensorsFile::read(std::string_view name, std::span<std::byte> out) const {
  const SafetensorsTensor& tensor = info(name);
  if (std::ssize(out) != tensor.bytes) throw InternalError("safetensors read", "wrong size", out.size(), tensor.bytes);
  file_.read_at(data_begin_ + tensor.begin, out);
}

void SafetensorsFile::read_bytes(std::string_view name, int64_t first_byte, std::span<std::byte> out) const {
  const SafetensorsTensor& tensor = info(name);
  if (first_byte < 0 || first_byte > tensor.bytes || std::ssize(out) > tensor.bytes - first_byte) {
    throw InternalError("safetensors read", "past the tensor", first_byte, tensor.bytes);
  }
  file_.read_at(data_begin_ + tensor.begin + first_byte, out);
}

void SafetensorsFile::read_f32(std::string_view name, std::span<float> out) const {
  const SafetensorsTensor& tensor = info(name);
  if (!is_float_dtype(tensor.dtype)) {
    throw DataError(file_.name(), fmt::format("tensor {} cannot be read as float", quote(name)),
                    safetensors_dtype_name(tensor.dtype), "F32, BF16, F16 or F64");
  }
  if (std::ssize(out) != tensor.num_elements()) {
    throw InternalError("safetensors read_f32", "wrong size", out.size(), tensor.num_elements());
  }
  if (tensor.dtype == SafetensorsDType::kF32) return read(name, std::as_writable_bytes(out));
  const auto element = static_cast<size_t>(safetensors_dtype_bytes(tensor.dtype));
  std::vector<std::byte> piece(std::min(kPieceBytes, static_cast<size_t>(tensor.bytes)));
  int64_t offset = data_begin_ + tensor.begin;
  while (!out.empty()) {
    const size_t count = std::min(out.size(), kPieceBytes / element);
    const std::span<std::byte> bytes = std::span(piece).first(count * element);
    file_.read_at(offset, bytes);
    convert_to_f32(tensor.dtype, bytes, out.first(count));
    offset += std::ssize(bytes);
    out = out.subspan(count);
  }
}

void convert_to_f32(SafetensorsDType dtype, std::span<const std::byte> bytes, std::span<float> out) {
  if (bytes.size() != out.size() * static_cast<size_t>(safetensors_dtype_bytes(dtype))) {
    throw InternalError("convert_to_f32", "sizes differ", bytes.size(), out.size());
  }
  switch (dtype) {
    case SafetensorsDType::kF32: return convert_each<float>(bytes, out, [](float v) { return v; });
    case SafetensorsDType::kBF16: return convert_each<bf16>(bytes, out, [](bf16 v) { return to_float(v); });
    case SafetensorsDType::kF16: return convert_each<fp16>(bytes, out, [](fp16 v) { return to_float(v); });
    case SafetensorsDType::kF64:
      return convert_each<double>(bytes, out, [](double v) { return static_cast<float>(v); });
    default: throw InternalError("convert_to_f32", "dtype", safetensors_dtype_name(dtype), "a floating dtype");
  }
}

bool is_float_dtype(SafetensorsDType dtype) {
  return dtype == SafetensorsDType::kF32 || dtype == SafetensorsDType::kBF16 || dtype == SafetensorsDType::kF16 ||
         dtype == SafetensorsDType::kF64;
}

}  // namespace litespark
