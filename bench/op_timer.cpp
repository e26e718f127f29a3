// SPDX-License-Identifier: Apache-2.0
#include "op_timer.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <random>
#include <sstream>

#include "core/bf16.h"
#include "core/fp8.h"

namespace litespark::bench {
namespace {

/// A block of random values, repeated over tensors: drawn once, since a host draws slowly.
const std::vector<float>& random_block() {
  static const std::vector<float> block = [] {
    constexpr size_t kValues = 1048573;  // prime: repeats do not line up with rows
    std::vector<float> values(kValues);
    std::mt19937 engine(7);
    std::normal_distribution<float> normal;
    for (float& value : values) value = normal(engine);
    return values;
  }();
  return block;
}

double run_seconds(Backend& backend, const std::function<void()>& body, int repeats, GpuReading* reading,
                   const GpuMonitor& monitor) {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < repeats; ++i) {
    body();
    if (reading != nullptr && i == repeats / 2) *reading = monitor.read();
  }
  backend.synchronize();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char letter : text) {
    if (letter == '"' || letter == '\\') result += '\\';
    result += letter < ' ' ? ' ' : letter;
  }
  return result + "\"";
}

}  // namespace

Tensor CaseTensors::zeros(DType dtype, Shape shape) {
  Tensor tensor{.dtype = dtype, .shape = shape, .device = backend_.device()};
  memory_.push_back(backend_.allocate(tensor.bytes()));
  tensor.data = memory_.back()->data();
  return tensor;
}

Tensor CaseTensors::random(DType dtype, Shape shape, float scale) {
  const Tensor tensor = zeros(dtype, shape);
  const std::vector<float>& block = random_block();
  const size_t element = static_cast<size_t>(dtype_bytes(dtype));
  std::vector<char> encoded(block.size() * element);
  for (size_t i = 0; i < block.size(); ++i) {
    const float value = block[i] * scale;
    if (is_fp8(dtype)) {
      encoded[i] = static_cast<char>(to_fp8(dtype, value));
      continue;
    }
    const bf16 rounded = to_bf16(value);
    std::memcpy(&encoded[i * element], dtype == DType::kBF16 ? static_cast<const void*>(&rounded) : &value, element);
  }
  for (int64_t done = 0; done < tensor.bytes();) {
    const int64_t part = std::min(tensor.bytes() - done, static_cast<int64_t>(encoded.size()));
    backend_.copy_to_device(static_cast<char*>(tensor.data) + done, encoded.data(), part);
    done += part;
  }
  return tensor;
}

Tensor CaseTensors::integers(const std::vector<int32_t>& values) {
  const Tensor tensor = zeros(DType::kI32, {static_cast<int64_t>(values.size())});
  backend_.copy_to_device(tensor.data, values.data(), tensor.bytes());
  return tensor;
}

Tensor CaseTensors::scratch(int64_t bytes) {
  return bytes == 0 ? Tensor{} : zeros(DType::kU8, {bytes});
}

void OpTimer::time(Row& row, const std::function<void()>& body) const {
  run_seconds(backend_, body, 2, nullptr, monitor_);
  const double once = run_seconds(backend_, body, 3, nullptr, monitor_) / 3;
  const int warm_up = std::clamp(static_cast<int>(seconds_per_case_ / 4 / once), 1, 2000);
  const int repeats = std::clamp(static_cast<int>(seconds_per_case_ / once), 3, 8000);
  run_seconds(backend_, body, warm_up, nullptr, monitor_);
  row.seconds = run_seconds(backend_, body, repeats, &row.gpu, monitor_) / repeats;
}

void print_row(const Row& row) {
  if (!row.error.empty()) {
    std::printf("%-10s %-58s %-24s %s\n", row.group.c_str(), row.name.c_str(), row.implementation.c_str(),
                row.error.c_str());
  } else {
    std::printf("%-10s %-58s %-24s %9.1f us %7.1f TFLOP/s %5u MHz %4.0f W\n", row.group.c_str(), row.name.c_str(),
                row.implementation.c_str(), row.seconds * 1e6, row.tflops(), row.gpu.sm_clock_mhz, row.gpu.power_watts);
  }
  std::fflush(stdout);
}

std::string to_json(const std::string& device, const std::vector<Row>& rows) {
  std::ostringstream json;
  json << "{\"device\": " << quoted(device) << ", \"rows\": [";
  const char* separator = "\n";
  for (const Row& row : rows) {
    json << separator << "{\"group\": " << quoted(row.group) << ", \"name\": " << quoted(row.name)
         << ", \"implementation\": " << quoted(row.implementation) << ", \"seconds\": " << row.seconds
         << ", \"tflops\": " << row.tflops() << ", \"sm_clock_mhz\": " << row.gpu.sm_clock_mhz
         << ", \"power_watts\": " << row.gpu.power_watts << ", \"error\": " << quoted(row.error) << "}";
    separator = ",\n";
  }
  json << "\n]}\n";
  return json.str();
}

}  // namespace litespark::bench
