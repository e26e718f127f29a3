// SPDX-License-Identifier: Apache-2.0
// A state machine over JSON events: the header is never built as a tree, so a hostile one costs no more than its text.
#include "io/safetensors_header.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "core/checked.h"
#include "core/quote.h"
#include "io/json_sax.h"

namespace litespark {
namespace {

struct DTypeRow {
  SafetensorsDType dtype;
  std::string_view name;
  int64_t bytes;
};

constexpr std::array<DTypeRow, 17> kDTypes = {{{SafetensorsDType::kBool, "BOOL", 1},
                                               {SafetensorsDType::kU8, "U8", 1},
                                               {SafetensorsDType::kI8, "I8", 1},
                                               {SafetensorsDType::kF8E4M3, "F8_E4M3", 1},
                                               {SafetensorsDType::kF8E5M2, "F8_E5M2", 1},
                                               {SafetensorsDType::kF8E8M0, "F8_E8M0", 1},
                                               {SafetensorsDType::kI16, "I16", 2},
                                               {SafetensorsDType::kU16, "U16", 2},
                                               {SafetensorsDType::kF16, "F16", 2},
                                               {SafetensorsDType::kBF16, "BF16", 2},
                                               {SafetensorsDType::kI32, "I32", 4},
                                               {SafetensorsDType::kU32, "U32", 4},
                                               {SafetensorsDType::kF32, "F32", 4},
                                               {SafetensorsDType::kI64, "I64", 8},
                                               {SafetensorsDType::kU64, "U64", 8},
                                               {SafetensorsDType::kF64, "F64", 8},
                                               {SafetensorsDType::kC64, "C64", 8}}};

const DTypeRow& row_of(SafetensorsDType dtype) {
  return kDTypes.at(static_cast<size_t>(dtype));
}

constexpr int64_t kMaxMetadataEntries = 10000;

/// Where in the header the parser stands.
enum class Place : uint8_t { kStart, kNames, kMetadata, kTensor, kShape, kOffsets, kEnd };

class HeaderSax final : public StrictJsonSax {
 public:
  using StrictJsonSax::StrictJsonSax;

  bool start_object(size_t) override {
    if (place_ == Place::kStart) return go(Place::kNames);
    if (place_ != Place::kNames) return StrictJsonSax::start_object(0);
    if (key_ == "__metadata__") return go(Place::kMetadata);
    if (std::ssize(header.tensors) == kMaxSafetensorsTensors) {
      refuse(fmt::format("more than {}", kMaxSafetensorsTensors), "names too many tensors",
             fmt::format("at most {}", kMaxSafetensorsTensors));
    }
    header.tensors.emplace_back().name = std::move(key_);
    has_dtype_ = has_shape_ = false;
    offsets_.clear();
    has_offsets_ = false;
    return go(Place::kTensor);
  }

  bool end_object() override {
    if (place_ == Place::kNames) return go(Place::kEnd);
    if (place_ == Place::kTensor) finish_tensor();
    return go(Place::kNames);
  }

  bool key(std::string& name) override {
    switch (place_) {
      case Place::kNames:
        if (name == "__metadata__" && std::exchange(has_metadata_, true)) duplicate(name);
        break;
      case Place::kMetadata:
        if (header.metadata.contains(name)) duplicate(name);
        if (std::ssize(header.metadata) == kMaxMetadataEntries) {
          refuse("more", "has too many metadata entries", kMaxMetadataEntries);
        }
        break;
      default: claim_field(name);
    }
    key_ = std::move(name);
    return true;
  }

  bool string(std::string& value) override {
    if (place_ == Place::kMetadata) {
      header.metadata.emplace(std::move(key_), std::move(value));
      return true;
    }
    if (place_ != Place::kTensor || key_ != "dtype") return StrictJsonSax::string(value);
    const auto row = std::find_if(kDTypes.begin(), kDTypes.end(), [&](const DTypeRow& r) { return r.name == value; });
    if (row == kDTypes.end()) complain("has an unknown dtype", quote(value), "F32, BF16, F16, F64, I64, ...");
    tensor().dtype = row->dtype;
    return true;
  }

  bool start_array(size_t) override {
    if (place_ != Place::kTensor || key_ == "dtype") return StrictJsonSax::start_array(0);
    return go(key_ == "shape" ? Place::kShape : Place::kOffsets);
  }

  bool end_array() override { return go(Place::kTensor); }

  bool integer(int64_t value) override {
    if (place_ != Place::kShape && place_ != Place::kOffsets) return StrictJsonSax::integer(value);
    if (value < 0) complain("holds a negative number", value, "0 or more");
    std::vector<int64_t>& list = place_ == Place::kShape ? tensor().shape : offsets_;
    if (std::ssize(list) == kMaxSafetensorsRank) complain("has a list that is too long", "more", kMaxSafetensorsRank);
    list.push_back(value);
    return true;
  }

  SafetensorsHeader header;

  template <class Found, class Expected>
  [[noreturn]] void complain(std::string_view what, const Found& found, const Expected& expected) const {
    throw DataError(where_, fmt::format("tensor {} {}", quote(header.tensors.back().name), what), found, expected);
  }

 private:
  bool go(Place next) {
    place_ = next;
    return true;
  }
  SafetensorsTensor& tensor() { return header.tensors.back(); }
  [[noreturn]] void duplicate(const std::string& name) const {
    refuse(quote(name) + " twice", "has a duplicate key", "each key once");
  }

  void claim_field(const std::string& name) {
    bool* const seen = name == "dtype" ? &has_dtype_ : name == "shape" ? &has_shape_ : &has_offsets_;
    if (seen == &has_offsets_ && name != "data_offsets") {
      complain("has an unknown key", quote(name), "dtype, shape, data_offsets");
    }
    if (std::exchange(*seen, true)) duplicate(name);
  }

  void finish_tensor() {
    if (!has_dtype_ || !has_shape_ || !has_offsets_) {
      complain("is incomplete", "a missing key", "dtype, shape and data_offsets");
    }
    if (offsets_.size() != 2 || offsets_[0] > offsets_[1]) {
      complain("has wrong data_offsets", fmt::format("[{}]", fmt::join(offsets_, ", ")), "[begin, end]");
    }
    tensor().begin = offsets_[0];
    tensor().bytes = offsets_[1] - offsets_[0];
    std::optional<int64_t> size = row_of(tensor().dtype).bytes;
    for (const int64_t extent : tensor().shape) {
      size = checked_mul(*size, extent);
      if (!size) break;
    }
    const auto shape_text = [&] { return fmt::format("[{}]", fmt::join(tensor().shape, ", ")); };
    if (!size) complain("has a size that overflows", shape_text(), "less than 2^63 bytes");
    if (*size == 0) complain("has no elements", shape_text(), "extents of 1 or more");
    if (*size != tensor().bytes) {
      complain("has data_offsets that differ from shape x dtype", fmt::format("{} bytes", tensor().bytes),
               fmt::format("{} bytes for {} {}", *size, row_of(tensor().dtype).name, shape_text()));
    }
  }

  Place place_ = Place::kStart;
  std::string key_;
  bool has_metadata_ = false;
  bool has_dtype_ = false;
  bool has_shape_ = false;
  bool has_offsets_ = false;
  std::vector<int64_t> offsets_;
};

void check_layout(std::vector<SafetensorsTensor>& tensors, int64_t data_bytes, std::string_view where) {
  std::sort(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) { return a.begin < b.begin; });
  int64_t end = 0;
  for (const SafetensorsTensor& tensor : tensors) {
    if (tensor.begin != end) {
      throw DataError(where,
                      fmt::format("tensor {} {}", quote(tensor.name),
                                  tensor.begin > end ? "leaves a gap before it" : "overlaps another"),
                      fmt::format("begin {}", tensor.begin), end);
    }
    end = tensor.begin + tensor.bytes;  // both come from data_offsets: end is one of its numbers
  }
  if (end != data_bytes) {
    throw DataError(where, end < data_bytes ? "has bytes after the last tensor" : "ends before its last tensor does",
                    fmt::format("{} bytes of data", data_bytes), end);
  }
}

}  // namespace

std::vector<int64_t> extents(const Shape& shape) {
  std::vector<int64_t> result;
  for (int dim = 0; dim < shape.rank(); ++dim) result.push_back(shape[dim]);
  return result;
}

std::string_view safetensors_dtype_name(SafetensorsDType dtype) {
  return row_of(dtype).name;
}

int64_t safetensors_dtype_bytes(SafetensorsDType dtype) {
  return row_of(dtype).bytes;
}

SafetensorsHeader parse_safetensors_header(std::string_view text, int64_t data_bytes, std::string_view where) {
  check_json_limits(text, where,
                    {.max_bytes = kMaxSafetensorsHeaderBytes,
                     .max_depth = 3,
                     .max_values = kMaxSafetensorsTensors * 24,
                     .max_token_bytes = int64_t{8} << 20});
  if (text.empty() || text.front() != '{') throw DataError(where, "has a header that is not a JSON object");
  HeaderSax sax(where);
  if (!nlohmann::json::sax_parse(text, &sax)) throw DataError(where, "has a header that is not valid JSON");
  std::vector<SafetensorsTensor>& tensors = sax.header.tensors;
  std::sort(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  const auto twin =
      std::adjacent_find(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) { return a.name == b.name; });
  if (twin != tensors.end()) {
    throw DataError(where, "has a duplicate key", quote(twin->name) + " twice", "each key once");
  }
  check_layout(tensors, data_bytes, where);
  std::sort(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return std::move(sax.header);
}

std::string safetensors_header_text(const SafetensorsHeader& header) {
  const auto json_string = [](const std::string& text) { return nlohmann::json(text).dump(); };
  std::string text = "{";
  const auto separate = [&] {
    if (text.size() > 1) text += ',';
  };
  if (!header.metadata.empty()) {
    text += "\"__metadata__\":" + nlohmann::json(header.metadata).dump();
  }
  for (const SafetensorsTensor& tensor : header.tensors) {
    separate();
    text +=
        fmt::format("{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}", json_string(tensor.name),
                    row_of(tensor.dtype).name, fmt::join(tensor.shape, ","), tensor.begin, tensor.begin + tensor.bytes);
  }
  text += '}';
  text.resize(static_cast<size_t>(round_up(static_cast<int64_t>(text.size()), 8)), ' ');
  return text;
}

}  // namespace litespark
