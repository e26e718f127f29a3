// SPDX-License-Identifier: Apache-2.0
// Tensors of one measurement on a device, filled with numbers that matter to nobody, freed together.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "ops/backend.h"

namespace litespark::anatomy {

class Workspace {
 public:
  explicit Workspace(Backend& backend) : backend_(backend) {}

  Backend& backend() const { return backend_; }
  /// Throws ConfigError when the device has no room.
  Tensor zeros(DType dtype, const Shape& shape);
  /// f32 or bf16 between -scale and scale, the same in every call: zeros would spare the machine work.
  Tensor numbers(DType dtype, const Shape& shape, float scale = 1.0f);
  Tensor integers(std::span<const int32_t> values);
  /// Bytes that an op asks for; absent for none.
  Tensor scratch(int64_t bytes);
  /// A StepState of zeros.
  Tensor step_state();

  /// Waits for the device.
  std::vector<float> floats(const Tensor& tensor) const;

 private:
  Backend& backend_;
  std::vector<std::unique_ptr<DeviceMemory>> memory_;
};

/// Bytes a second of a plain copy inside the device's memory, read and written counted: f32 values, `bytes` of them in
/// all, which should be more than its caches hold.
double measure_copy_rate(Backend& backend, int64_t bytes, double seconds);

}  // namespace litespark::anatomy
