// SPDX-License-Identifier: Apache-2.0
// The named plain implementation of products on tensor cores whose result is f32. Hopper's tensor cores keep fewer bits
// of their partial sums than IEEE additions in f32 would, so a loop in f32 on the host is no implementation "in the
// same precision"; cuBLAS's classic GEMM with bf16 inputs and f32 accumulators, its own default algorithm, is.
#pragma once

#include "ops/cuda/linear_cases.h"

namespace litespark::test {

/// Rows and columns are filled up with zeros to multiples of 16, which changes no sum: cuBLAS has no tensor core
/// kernels for odd leading dimensions and would take scalar ones.
///
/// dweight [O, I] = dy^T x, plus the old dweight where the case accumulates, by cublasGemmEx. bf16 cases only; throws
/// DeviceError when a call fails.
Values library_weight_gradient(const GpuLinearCase& c, const Values& in);

}  // namespace litespark::test
