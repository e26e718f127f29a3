// SPDX-License-Identifier: Apache-2.0
#include "ops/cuda/plain_product.h"

#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include "core/checked.h"
#include "core/error.h"
#include "ops/cuda/check.h"

namespace litespark::test {
namespace {

void check_cublas(cublasStatus_t status) {
  if (status != CUBLAS_STATUS_SUCCESS) throw DeviceError("plain product", cublasGetStatusString(status));
}

/// A tensor's bytes on the device.
class DeviceCopy {
 public:
  DeviceCopy(DType dtype, const std::vector<double>& values) : dtype_(dtype), bytes_(encode(dtype, values)) {
    cuda::check(cudaMalloc(&data_, bytes_.size()), "plain product");
    cuda::check(cudaMemcpy(data_, bytes_.data(), bytes_.size(), cudaMemcpyHostToDevice), "plain product");
  }
  ~DeviceCopy() { cudaFree(data_); }
  DeviceCopy(const DeviceCopy&) = delete;
  DeviceCopy& operator=(const DeviceCopy&) = delete;

  void* data() const { return data_; }
  std::vector<double> values() {
    cuda::check(cudaMemcpy(bytes_.data(), data_, bytes_.size(), cudaMemcpyDeviceToHost), "plain product");
    return decode(dtype_, bytes_);
  }

 private:
  DType dtype_;
  std::vector<std::byte> bytes_;
  void* data_ = nullptr;
};

/// [rows, columns] with zeros behind each row up to `width`, and rows of zeros up to `height`.
std::vector<double> padded(const std::vector<double>& values, int64_t columns, int64_t height, int64_t width) {
  std::vector<double> result(static_cast<size_t>(height * width), 0.0);
  for (size_t i = 0; i < values.size(); ++i) {
    const auto row = static_cast<int64_t>(i) / columns;
    const auto column = static_cast<int64_t>(i) % columns;
    result[static_cast<size_t>(row * width + column)] = values[i];
  }
  return result;
}

}  // namespace

Values library_weight_gradient(const GpuLinearCase& c, const Values& in) {
  constexpr int64_t kMultiple = 16;
  const int64_t rows = round_up(c.rows, kMultiple);
  const int64_t inputs = round_up(c.inputs, kMultiple);
  const int64_t outputs = round_up(c.outputs, kMultiple);
  const DeviceCopy x(DType::kBF16, padded(in.at("x"), c.inputs, rows, inputs));
  const DeviceCopy dy(DType::kBF16, padded(in.at("dy"), c.outputs, rows, outputs));
  const std::vector<double> none;
  DeviceCopy dweight(DType::kF32, padded(c.accumulate ? in.at("dweight") : none, c.inputs, outputs, inputs));
  const auto m = static_cast<int>(inputs);
  const auto n = static_cast<int>(outputs);
  const float one = 1.0f;
  const float beta = c.accumulate ? 1.0f : 0.0f;
  cublasHandle_t handle = nullptr;
  check_cublas(cublasCreate(&handle));
  // Column-major: [I x O] = x [I x N] times the transpose of dy [O x N].
  const cublasStatus_t status = cublasGemmEx(handle, CUBLAS_OP_N, CUBLAS_OP_T, m, n, static_cast<int>(rows), &one,
                                             x.data(), CUDA_R_16BF, m, dy.data(), CUDA_R_16BF, n, &beta, dweight.data(),
                                             CUDA_R_32F, m, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
  cublasDestroy(handle);
  check_cublas(status);
  const std::vector<double> all = dweight.values();
  std::vector<double> result;
  for (int64_t o = 0; o < c.outputs; ++o) {
    const auto first = all.begin() + static_cast<std::ptrdiff_t>(o * inputs);
    result.insert(result.end(), first, first + static_cast<std::ptrdiff_t>(c.inputs));
  }
  return {.tensors = {{"dweight", result}}, .state = {}};
}

}  // namespace litespark::test
