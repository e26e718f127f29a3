// SPDX-License-Identifier: Apache-2.0
#include "ops/cuda/plain_product.h"

#include <cublas_v2.h>
#include <cuda_runtime_api.h>

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

}  // namespace

Values library_weight_gradient(const GpuLinearCase& c, const Values& in) {
  const DeviceCopy x(DType::kBF16, in.at("x"));
  const DeviceCopy dy(DType::kBF16, in.at("dy"));
  const size_t size = static_cast<size_t>(c.inputs * c.outputs);
  DeviceCopy dweight(DType::kF32, c.accumulate ? in.at("dweight") : std::vector<double>(size, 0.0));
  const auto inputs = static_cast<int>(c.inputs);
  const auto outputs = static_cast<int>(c.outputs);
  const float one = 1.0f;
  const float beta = c.accumulate ? 1.0f : 0.0f;
  cublasHandle_t handle = nullptr;
  check_cublas(cublasCreate(&handle));
  // Column-major: [I x O] = x [I x N] times the transpose of dy [O x N].
  const cublasStatus_t status =
      cublasGemmEx(handle, CUBLAS_OP_N, CUBLAS_OP_T, inputs, outputs, static_cast<int>(c.rows), &one, x.data(),
                   CUDA_R_16BF, inputs, dy.data(), CUDA_R_16BF, outputs, &beta, dweight.data(), CUDA_R_32F, inputs,
                   CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
  cublasDestroy(handle);
  check_cublas(status);
  return {.tensors = {{"dweight", dweight.values()}}, .state = {}};
}

}  // namespace litespark::test
