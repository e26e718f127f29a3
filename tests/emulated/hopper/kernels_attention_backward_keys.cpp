// SPDX-License-Identifier: Apache-2.0
// The source of the keys' gradient on tensor cores, as code for the CPU.
#include <cmath>

#include "block.h"
#include "core/checked.h"
#include "core/error.h"
#include "core/op/attention.h"
#include "core/tensor.h"
#define __CUDACC__
#include "ops/cuda/attention_backward_keys.cu"
