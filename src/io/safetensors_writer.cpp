// SPDX-License-Identifier: Apache-2.0
// The writer checks its own header with the reader's parser before a byte reaches the disk.
#include "io/safetensors_writer.h"

#include <algorithm>
#include <bit>
#include <new>

#include "core/bf16.h"
#include "core/checked.h"
#include "core/error.h"

namespace litespark {
namespace {

constexpr size_t kPieceElements = size_t{1} << 18;

SafetensorsHeader lay_out(std::vector<SafetensorsWriter::Declaration> declared,
                          const std::map<std::string, std::string>& metadata) {
  std::sort(declared.begin(), declared.end(), [](const auto& a, const auto& b) {
    const int64_t a_bytes = safetensors_dtype_bytes(a.dtype);
    const int64_t b_bytes = safetensors_dtype_bytes(b.dtype);
    return a_bytes != b_bytes ? a_bytes > b_bytes : a.name < b.name;
  });
  SafetensorsHeader header{.tensors = {}, .metadata = metadata};
  int64_t end = 0;
  for (SafetensorsWriter::Declaration& tensor : declared) {
    std::optional<int64_t> bytes = safetensors_dtype_bytes(tensor.dtype);
    for (const int64_t extent : tensor.shape) bytes = bytes ? checked_mul(*bytes, extent) : std::nullopt;
    const auto next_end = bytes ? checked_add(end, *bytes) : std::nullopt;
    if (!next_end) throw InternalError("safetensors", "tensor " + tensor.name + " is too large");
    header.tensors.push_back({.name = std::move(tensor.name),
                              .dtype = tensor.dtype,
                              .shape = std::move(tensor.shape),
                              .begin = end,
                              .bytes = *bytes});
    end = *next_end;
  }
  return header;
}

}  // namespace

SafetensorsWriter::SafetensorsWriter(const std::filesystem::path& path, std::vector<Declaration> tensors,
                                     const std::map<std::string, std::string>& metadata)
    : header_(lay_out(std::move(tensors), metadata)), file_(path) {
  const int64_t data_bytes = header_.tensors.empty() ? 0 : header_.tensors.back().begin + header_.tensors.back().bytes;
  std::string text;
  try {
    text = safetensors_header_text(header_);
    parse_safetensors_header(text, data_bytes, path.string());
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    throw InternalError("safetensors", std::string("header cannot be written: ") + error.what());
  }
  const uint64_t length = text.size();
  file_.write(std::as_bytes(std::span(&length, 1)));
  file_.write(text);
  file_bytes_ = file_.bytes_written() + data_bytes;
}

void SafetensorsWriter::write(std::string_view name, std::span<const std::byte> bytes) {
  if (next_ == header_.tensors.size() || header_.tensors[next_].name != name) {
    throw InternalError("safetensors", "tensor written out of order", name,
                        next_ < header_.tensors.size() ? header_.tensors[next_].name : "no more tensors");
  }
  const SafetensorsTensor& tensor = header_.tensors[next_];
  if (std::ssize(bytes) > tensor.bytes - next_bytes_) {
    throw InternalError("safetensors", "too many bytes for " + tensor.name, next_bytes_ + std::ssize(bytes),
                        tensor.bytes);
  }
  file_.write(bytes);
  next_bytes_ += std::ssize(bytes);
  if (next_bytes_ == tensor.bytes) {
    ++next_;
    next_bytes_ = 0;
  }
}

void SafetensorsWriter::write_f32(std::string_view name, std::span<const float> values) {
  if (next_ < header_.tensors.size() && header_.tensors[next_].dtype == SafetensorsDType::kF32) {
    return write(name, std::as_bytes(values));
  }
  if (next_ < header_.tensors.size() && header_.tensors[next_].dtype != SafetensorsDType::kBF16) {
    throw InternalError("safetensors", "dtype", safetensors_dtype_name(header_.tensors[next_].dtype), "F32 or BF16");
  }
  std::vector<bf16> piece(std::min(values.size(), kPieceElements));
  while (!values.empty()) {
    const size_t count = std::min(values.size(), kPieceElements);
    std::transform(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(count), piece.begin(), to_bf16);
    write(name, std::as_bytes(std::span(piece).first(count)));
    values = values.subspan(count);
  }
}

void SafetensorsWriter::commit() {
  if (next_ != header_.tensors.size()) {
    throw InternalError("safetensors", "file is not complete", header_.tensors[next_].name, "every tensor written");
  }
  file_.commit();
}

SafetensorsDType safetensors_dtype_of(DType dtype) {
  switch (dtype) {
    case DType::kF32: return SafetensorsDType::kF32;
    case DType::kBF16: return SafetensorsDType::kBF16;
    default: throw InternalError("safetensors", "dtype", dtype_name(dtype), "f32 or bf16");
  }
}

}  // namespace litespark
