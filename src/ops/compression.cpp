// SPDX-License-Identifier: Apache-2.0
// Contract checks of gradients as 16-bit messages.
#include "ops/op_check.h"

namespace litespark {
namespace {

void check_message(const OpCheck& check, std::string_view name, const Tensor& message, int64_t piece, int ranks,
                   Compression format) {
  check.that(format != Compression::kNone, "there is no such message");
  check.dtype(name, message, {DType::kU16});
  check.elements(name, message, ranks * message_words(format, piece));
}

}  // namespace

void check_contract(const op::CompressGradient<Tensor>& op) {
  const OpCheck check(op.kName);
  const int64_t size = op.gradient.num_elements();
  check.dtype("gradient", op.gradient, {DType::kF32});
  check.positive("ranks", op.ranks);
  check_message(check, "message", op.message, size / op.ranks, op.ranks, op.format);
  check.that(size % op.ranks == 0, "the pieces are not equal");
  if (!op.residual.has_value()) return;
  check.dtype("residual", op.residual, {DType::kF32});
  check.elements("residual", op.residual, size);
}

void check_contract(const op::SumMessages<Tensor>& op) {
  const OpCheck check(op.kName);
  check.dtype("sum", op.sum, {DType::kF32});
  check.positive("ranks", op.ranks);
  check_message(check, "messages", op.messages, op.sum.num_elements(), op.ranks, op.format);
}

void check_contract(const op::DropResidual<Tensor>& op) {
  const OpCheck check(op.kName);
  check.dtype("residual", op.residual, {DType::kF32});
  check.step_state("state", op.state);
}

}  // namespace litespark
