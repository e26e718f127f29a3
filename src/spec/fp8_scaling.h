// SPDX-License-Identifier: Apache-2.0
// What shares one scale when a tensor is brought to 8 bits: a choice of the run file, carried out by the program's ops.
#pragma once

#include <cstdint>

namespace litespark {

/// kRow: each row of a copy, so that a transposed copy has a scale for each column of the tensor.
enum class Fp8Scaling : uint8_t { kTensor, kRow };

}  // namespace litespark
