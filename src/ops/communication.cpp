// SPDX-License-Identifier: Apache-2.0
// Contract checks of what ranks send each other.
#include "ops/op_check.h"

namespace litespark {
namespace {

void check_pieces(const OpCheck& check, const Tensor& data, const Tensor& shard, int ranks, int call) {
  check.dtype("shard", shard, {data.dtype});
  check.positive("ranks", ranks);
  check.elements("data", data, shard.num_elements() * ranks);
  check.that(call >= 0, "the call is negative");
}

void check_neighbour(const OpCheck& check, int neighbour, int call) {
  check.that(neighbour == 1 || neighbour == -1, "the stage is no neighbour");
  check.that(call >= 0, "the call is negative");
}

}  // namespace

void check_contract(const op::AllReduce<Tensor>& op) {
  const OpCheck check(op.kName);
  check.floating("data", op.data);
  check.that(op.call >= 0, "the call is negative");
}

void check_contract(const op::ReduceScatter<Tensor>& op) {
  const OpCheck check(op.kName);
  check.floating("data", op.data);
  check_pieces(check, op.data, op.shard, op.ranks, op.call);
}

void check_contract(const op::AllGather<Tensor>& op) {
  const OpCheck check(op.kName);
  check.dtype("data", op.data, {DType::kF32, DType::kBF16, DType::kU16, DType::kF64, DType::kI64});
  check_pieces(check, op.data, op.shard, op.ranks, op.call);
}

void check_contract(const op::AllToAll<Tensor>& op) {
  const OpCheck check(op.kName);
  check.dtype("data", op.data, {DType::kF32, DType::kBF16, DType::kU16});
  check.dtype("sent", op.sent, {op.data.dtype});
  check.positive("ranks", op.ranks);
  check.elements("sent", op.sent, op.data.num_elements());
  check.that(op.data.num_elements() % op.ranks == 0, "the pieces are not equal");
  check.that(op.call >= 0, "the call is negative");
}

void check_contract(const op::Send<Tensor>& op) {
  const OpCheck check(op.kName);
  check.floating("sent", op.sent);
  check_neighbour(check, op.neighbour, op.call);
}

void check_contract(const op::Receive<Tensor>& op) {
  const OpCheck check(op.kName);
  check.floating("received", op.received);
  check_neighbour(check, op.neighbour, op.call);
}

void check_contract(const op::PassOn<Tensor>& op) {
  const OpCheck check(op.kName);
  check.floating("sent", op.sent);
  check.same_dtype("received", op.received, op.sent);
  check.elements("received", op.received, op.sent.num_elements());
  check.that(op.call >= 0, "the call is negative");
}

void check_contract(const op::CommWait<Tensor>& op) {
  const OpCheck check(op.kName);
  check.dtype("tensor", op.tensor, {DType::kF32, DType::kBF16, DType::kU16, DType::kF64, DType::kI64});
  if (op.source.has_value()) check.dtype("source", op.source, {op.tensor.dtype});
  check.that(op.call >= 0, "the call is negative");
}

}  // namespace litespark
