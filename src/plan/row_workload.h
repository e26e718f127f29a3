// SPDX-License-Identifier: Apache-2.0
// What a measured row describes, as a plan sees it: hardware, software and workload, or the reason why it cannot be
// predicted. Cells that the source leaves blank get what its program does by itself, never what fits its value.
#pragma once

#include <string>

#include "plan/hardware.h"
#include "plan/software.h"
#include "plan/validation_rows.h"
#include "plan/workload.h"

namespace litespark {

struct RowWorkload {
  Hardware hardware;
  Software software;
  Workload workload;
  std::string exclusion;  ///< empty when the row can be predicted
};

RowWorkload workload_of_row(const ValidationRow& row);

}  // namespace litespark
