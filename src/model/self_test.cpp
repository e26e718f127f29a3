// SPDX-License-Identifier: Apache-2.0
#include "model/self_test.h"

#include <string>

#include "core/error.h"
#include "model/probe_matmul.h"

namespace litespark {

void require_right_matmul(Backend& backend, DType compute) {
  const MatmulCheck check = check_matmul(backend, compute, 1);
  if (check.pass()) return;
  throw DeviceError("self-test",
                    "a matmul of known result on " + backend.name() + " gave " + std::to_string(check.num_wrong) +
                        " wrong values of " + std::to_string(check.num_values) +
                        (check.num_changed > 0 ? " and other bits the second time" : ""),
                    check.num_wrong + check.num_changed, 0, "do not train on this device; see litespark selftest");
}

}  // namespace litespark
