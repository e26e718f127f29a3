// SPDX-License-Identifier: Apache-2.0
// The source of the Hopper backward, as code for the CPU.
#include <cmath>

#include "block.h"
#include "core/checked.h"
#include "core/error.h"
#include "core/op/attention.h"
#include "core/tensor.h"
#define __CUDACC__
#define __CUDA_ARCH_FEAT_SM90_ALL
#include "ops/cuda/attention_backward_sm90.cu"
