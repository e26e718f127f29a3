// SPDX-License-Identifier: Apache-2.0
// What the contracts of core/op/ ask of tensors, as checks that name op and tensor when they fail. Data pointers are
// never read, so tensors of a plan can be checked too.
#pragma once

#include <initializer_list>
#include <string_view>

#include "core/op/all.h"
#include "core/tensor.h"

namespace litespark {

/// Checks of one op; each throws InternalError "[op] tensor ...; got ..., expected ...". Rows are all dimensions but
/// the last, flattened.
class OpCheck {
 public:
  explicit OpCheck(std::string_view op) : op_(op) {}

  void present(std::string_view name, const Tensor& tensor) const;
  void dtype(std::string_view name, const Tensor& tensor, std::initializer_list<DType> allowed) const;
  /// f32 or bf16.
  void floating(std::string_view name, const Tensor& tensor) const;
  /// A floating tensor with exactly the dtype of `like`.
  void same_dtype(std::string_view name, const Tensor& tensor, const Tensor& like) const;
  void matrix(std::string_view name, const Tensor& tensor, int64_t rows, int64_t columns) const;
  void elements(std::string_view name, const Tensor& tensor, int64_t count) const;
  /// Scratch: at least `count` elements.
  void room(std::string_view name, const Tensor& tensor, int64_t count) const;
  /// The bytes of one StepState.
  void step_state(std::string_view name, const Tensor& tensor) const;
  void positive(std::string_view name, int64_t value) const;
  /// Fails with `what` unless `holds`.
  void that(bool holds, std::string_view what) const;

 private:
  std::string_view op_;
};

/// One overload an op, in the file named after its header in core/op/.
void check_contract(const op::EmbeddingForward<Tensor>& op);
void check_contract(const op::EmbeddingBackward<Tensor>& op);
void check_contract(const op::RmsNormForward<Tensor>& op);
void check_contract(const op::RmsNormBackward<Tensor>& op);
void check_contract(const op::HeadNormForward<Tensor>& op);
void check_contract(const op::HeadNormBackward<Tensor>& op);
void check_contract(const op::MatmulForward<Tensor>& op);
void check_contract(const op::MatmulBackwardInput<Tensor>& op);
void check_contract(const op::MatmulBackwardWeight<Tensor>& op);
void check_contract(const op::BiasBackward<Tensor>& op);
void check_contract(const op::PackWeight<Tensor>& op);
void check_contract(const op::Rope<Tensor>& op);
void check_contract(const op::AttentionForward<Tensor>& op);
void check_contract(const op::AttentionBackward<Tensor>& op);
void check_contract(const op::AttentionPartForward<Tensor>& op);
void check_contract(const op::AttentionPartBackward<Tensor>& op);
void check_contract(const op::AttentionCached<Tensor>& op);
void check_contract(const op::TakeColumns<Tensor>& op);
void check_contract(const op::JoinColumns<Tensor>& op);
void check_contract(const op::SwiGluForward<Tensor>& op);
void check_contract(const op::SwiGluBackward<Tensor>& op);
void check_contract(const op::GatedForward<Tensor>& op);
void check_contract(const op::GatedBackward<Tensor>& op);
void check_contract(const op::CrossEntropy<Tensor>& op);
void check_contract(const op::CrossEntropyPart<Tensor>& op);
void check_contract(const op::CrossEntropyJoined<Tensor>& op);
void check_contract(const op::LossReduce<Tensor>& op);
void check_contract(const op::GradientSquareSum<Tensor>& op);
void check_contract(const op::StepDecision<Tensor>& op);
void check_contract(const op::AdamW<Tensor>& op);
void check_contract(const op::MeanOfCopies<Tensor>& op);
void check_contract(const op::Convert<Tensor>& op);
void check_contract(const op::Add<Tensor>& op);
void check_contract(const op::OffloadStore<Tensor>& op);
void check_contract(const op::OffloadFetch<Tensor>& op);
void check_contract(const op::OffloadWait<Tensor>& op);
void check_contract(const op::Checksum<Tensor>& op);
void check_contract(const op::PutStepSums<Tensor>& op);
void check_contract(const op::TakeStepSums<Tensor>& op);
void check_contract(const op::AllReduce<Tensor>& op);
void check_contract(const op::ReduceScatter<Tensor>& op);
void check_contract(const op::AllGather<Tensor>& op);
void check_contract(const op::AllToAll<Tensor>& op);
void check_contract(const op::Send<Tensor>& op);
void check_contract(const op::Receive<Tensor>& op);
void check_contract(const op::PassOn<Tensor>& op);
void check_contract(const op::CommWait<Tensor>& op);
void check_contract(const op::Clear<Tensor>& op);
void check_contract(const op::AbsMax<Tensor>& op);
void check_contract(const op::QuantizeFp8<Tensor>& op);
void check_contract(const op::ScaledMatmul<Tensor>& op);
void check_contract(const op::QuantizeQkv<Tensor>& op);
void check_contract(const op::AttentionForwardFp8<Tensor>& op);
void check_contract(const op::CompressGradient<Tensor>& op);
void check_contract(const op::SumMessages<Tensor>& op);
void check_contract(const op::DropResidual<Tensor>& op);

}  // namespace litespark
