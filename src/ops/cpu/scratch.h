// SPDX-License-Identifier: Apache-2.0
// Scratch of one op: the tensor that the plan gave, or memory of our own where a caller (a test, a tool) gave none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "core/checked.h"
#include "core/error.h"
#include "core/tensor.h"

namespace litespark::cpu {

inline constexpr int64_t kScratchAlignment = 256;

class Scratch {
 public:
  /// Throws InternalError when the tensor is there but too small.
  Scratch(std::string_view where, const Tensor& tensor, int64_t bytes) {
    if (tensor.has_value()) {
      if (tensor.bytes() < bytes) throw InternalError(where, "scratch too small", tensor.bytes(), bytes);
      data_ = static_cast<std::byte*>(tensor.data);
      return;
    }
    if (bytes == 0) {  // steady steps ask for no memory
      alignas(kScratchAlignment) static std::byte nothing[kScratchAlignment];
      data_ = nothing;
      return;
    }
    owned_ = std::make_unique_for_overwrite<std::byte[]>(static_cast<size_t>(bytes + kScratchAlignment));
    const auto address = reinterpret_cast<uintptr_t>(owned_.get());
    data_ = owned_.get() + (round_up(static_cast<int64_t>(address), kScratchAlignment) - static_cast<int64_t>(address));
  }

  std::byte* data() const { return data_; }

 private:
  std::byte* data_ = nullptr;
  std::unique_ptr<std::byte[]> owned_;
};

/// Cuts aligned pieces off a block, or only counts them when the block is null.
class ScratchCursor {
 public:
  explicit ScratchCursor(std::byte* base = nullptr) : base_(base) {}

  template <class T>
  T* take(int64_t count) {
    std::byte* piece = base_ == nullptr ? nullptr : base_ + used_;
    used_ += round_up(count * static_cast<int64_t>(sizeof(T)), kScratchAlignment);
    return reinterpret_cast<T*>(piece);
  }
  int64_t used() const { return used_; }

 private:
  std::byte* base_;
  int64_t used_ = 0;
};

}  // namespace litespark::cpu
