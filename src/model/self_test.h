// SPDX-License-Identifier: Apache-2.0
// One matmul whose result is known, before a run trusts the device with days of work.
#pragma once

#include "core/dtype.h"
#include "ops/backend.h"

namespace litespark {

/// Throws DeviceError when a product of known result (check_matmul) comes out with a wrong value, or with other bits
/// the second time. Takes some milliseconds.
void require_right_matmul(Backend& backend, DType compute);

}  // namespace litespark
