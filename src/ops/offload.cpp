// SPDX-License-Identifier: Apache-2.0
// Contract checks of the copies to and from host memory.
#include "ops/op_check.h"

namespace litespark {
namespace {

void check_copy(const OpCheck& check, const Tensor& host, const Tensor& device, int ticket) {
  check.floating("device", device);
  check.same_dtype("host", host, device);
  check.matrix("host", host, device.rows(), device.columns());
  check.that(ticket >= 0, "the ticket is negative");
}

}  // namespace

void check_contract(const op::OffloadStore<Tensor>& op) {
  check_copy(OpCheck(op.kName), op.host, op.device, op.ticket);
}

void check_contract(const op::OffloadFetch<Tensor>& op) {
  check_copy(OpCheck(op.kName), op.host, op.device, op.ticket);
}

void check_contract(const op::OffloadWait<Tensor>& op) {
  const OpCheck check(op.kName);
  check.floating("device", op.device);
  check.that(op.ticket >= 0, "the ticket is negative");
}

}  // namespace litespark
