// SPDX-License-Identifier: Apache-2.0
// Times one op of a backend on random data: memory for its tensors, repeats for a given time, a table row and JSON.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "gpu_monitor.h"
#include "ops/backend.h"

namespace litespark::bench {

/// Tensors of one case; freed with it.
class CaseTensors {
 public:
  explicit CaseTensors(Backend& backend) : backend_(backend) {}

  /// Values of about a standard normal, times `scale`.
  Tensor random(DType dtype, Shape shape, float scale = 1.0f);
  Tensor zeros(DType dtype, Shape shape);
  Tensor integers(const std::vector<int32_t>& values);
  /// Absent when `bytes` is 0.
  Tensor scratch(int64_t bytes);

 private:
  Backend& backend_;
  std::vector<std::unique_ptr<DeviceMemory>> memory_;
};

struct Row {
  std::string group;           ///< "matmul", "attention"
  std::string name;            ///< shape in words
  std::string implementation;  ///< what ran
  double flops = 0;            ///< of one run
  double seconds = 0;          ///< of one run
  GpuReading gpu;
  std::string error;  ///< set when the case failed

  double tflops() const { return seconds > 0 ? flops / seconds * 1e-12 : 0; }
};

class OpTimer {
 public:
  OpTimer(Backend& backend, const GpuMonitor& monitor, double seconds_per_case)
      : backend_(backend), monitor_(monitor), seconds_per_case_(seconds_per_case) {}

  /// Runs `body` for about the case's time after a warm-up of a quarter of it; fills `seconds` and `gpu`.
  void time(Row& row, const std::function<void()>& body) const;

 private:
  Backend& backend_;
  const GpuMonitor& monitor_;
  double seconds_per_case_;
};

/// One line for people.
void print_row(const Row& row);
/// All rows as a JSON array of objects, with the device's name before them.
std::string to_json(const std::string& device, const std::vector<Row>& rows);

}  // namespace litespark::bench
