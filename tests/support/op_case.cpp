// SPDX-License-Identifier: Apache-2.0
#include "support/op_case.h"

#include <algorithm>
#include <cstring>

#include "core/error.h"
#include "core/fp8.h"

namespace litespark::test {
namespace {

constexpr size_t kGuardBytes = 256;
constexpr std::byte kGuard{0xA5};
constexpr std::byte kGarbage{0xFF};  ///< NaN in every float dtype

bool is_float(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kBF16 || dtype == DType::kF64 || is_fp8(dtype);
}

}  // namespace

struct CaseMemory::Guarded {
  Tensor tensor;  ///< with memory
  std::unique_ptr<DeviceMemory> memory;
  std::vector<std::byte> before;
  bool is_read = false;
  bool is_written = false;
};

CaseMemory::CaseMemory(Backend& backend, const Values& inputs,
                       const std::map<std::string, std::string, std::less<>>& aliases)
    : backend_(backend), inputs_(inputs), aliases_(aliases) {}

CaseMemory::~CaseMemory() = default;

CaseMemory::Guarded& CaseMemory::place(std::string_view name, const Tensor& tensor, bool is_read, bool is_written) {
  const auto alias = aliases_.find(name);
  const std::string owner(alias == aliases_.end() ? name : alias->second);
  std::unique_ptr<Guarded>& slot = memory_[owner];
  if (slot == nullptr) {
    slot = std::make_unique<Guarded>();
    slot->tensor = tensor;
    const size_t size = static_cast<size_t>(tensor.bytes());
    slot->memory = backend_.allocate(static_cast<int64_t>(size + 2 * kGuardBytes));
    slot->tensor.data = static_cast<std::byte*>(slot->memory->data()) + kGuardBytes;
    slot->tensor.device = backend_.device();
    slot->before.assign(size, kGarbage);
    if (tensor.dtype == DType::kU8 && size == sizeof(StepState)) {
      std::memcpy(slot->before.data(), &inputs_.state, sizeof(StepState));
    } else if (inputs_.has(owner)) {
      slot->before = encode(tensor.dtype, inputs_.at(owner));
    }
    if (slot->before.size() != size) {
      throw InternalError("op case", owner + " has the wrong number of values", slot->before.size(), size);
    }
    std::vector<std::byte> image(size + 2 * kGuardBytes, kGuard);
    std::copy(slot->before.begin(), slot->before.end(), image.begin() + kGuardBytes);
    backend_.copy_to_device(slot->memory->data(), image.data(), static_cast<int64_t>(image.size()));
  }
  slot->is_read |= is_read;
  slot->is_written |= is_written;
  return *slot;
}

Tensor CaseMemory::in(std::string_view name, const Tensor& tensor) {
  return tensor.has_value() ? place(name, tensor, true, false).tensor : tensor;
}

Tensor CaseMemory::out(std::string_view name, const Tensor& tensor) {
  return tensor.has_value() ? place(name, tensor, false, true).tensor : tensor;
}

Tensor CaseMemory::inout(std::string_view name, const Tensor& tensor) {
  return tensor.has_value() ? place(name, tensor, true, true).tensor : tensor;
}

Execution CaseMemory::collect(const std::string& case_name) {
  Execution execution;
  for (const auto& [name, slot] : memory_) {
    const size_t size = slot->before.size();
    std::vector<std::byte> image(size + 2 * kGuardBytes);
    backend_.copy_to_host(image.data(), slot->memory->data(), static_cast<int64_t>(image.size()));
    const auto is_guard = [](std::byte byte) { return byte == kGuard; };
    EXPECT_TRUE(std::all_of(image.begin(), image.begin() + kGuardBytes, is_guard)) << case_name << ": before " << name;
    EXPECT_TRUE(std::all_of(image.end() - kGuardBytes, image.end(), is_guard)) << case_name << ": behind " << name;
    std::vector<std::byte> bytes(image.begin() + kGuardBytes, image.end() - kGuardBytes);
    if (!slot->is_written) {
      EXPECT_EQ(bytes, slot->before) << case_name << ": input " << name << " was changed";
      continue;
    }
    std::string written = name;
    for (const auto& [alias, owner] : aliases_) written = owner == name ? alias : written;
    if (slot->tensor.dtype == DType::kU8 && size == sizeof(StepState)) {
      std::memcpy(&execution.outputs.state, bytes.data(), sizeof(StepState));
    } else {
      execution.outputs.tensors[written] = decode(slot->tensor.dtype, bytes);
    }
    execution.dtypes[written] = slot->tensor.dtype;
    execution.bytes[written] = std::move(bytes);
  }
  return execution;
}

Tensor RandomFill::in(std::string_view name, const Tensor& tensor) {
  if (!tensor.has_value() || !is_float(tensor.dtype) || values_.has(name)) return tensor;
  uint64_t seed = seed_;
  for (const char letter : name) seed = seed * 31 + static_cast<uint64_t>(letter);
  values_.tensors[std::string(name)] = random_normal(tensor.dtype, tensor.num_elements(), seed);
  return tensor;
}

}  // namespace litespark::test
