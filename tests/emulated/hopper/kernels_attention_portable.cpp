// SPDX-License-Identifier: Apache-2.0
// The choice between portable kernels, for the CPU.
#include "ops/cuda/attention_portable.cpp"
