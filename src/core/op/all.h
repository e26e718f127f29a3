// SPDX-License-Identifier: Apache-2.0
// The closed set of ops. Each struct is written once and used twice: with TensorId on a tape (spec/), where `map`
// yields reads, writes and lifetimes, and with Tensor at execution (ops/).
#pragma once

#include <variant>

#include "core/op/attention.h"
#include "core/op/attention_fp8.h"
#include "core/op/checksum.h"
#include "core/op/columns.h"
#include "core/op/communication.h"
#include "core/op/compression.h"
#include "core/op/embedding.h"
#include "core/op/fp8.h"
#include "core/op/gated.h"
#include "core/op/loss.h"
#include "core/op/matmul.h"
#include "core/op/offload.h"
#include "core/op/optimizer.h"
#include "core/op/rms_norm.h"
#include "core/op/step_sums.h"
#include "core/op/swiglu.h"

namespace litespark::op {

template <class T>
using AnyOp = std::variant<
    EmbeddingForward<T>, EmbeddingBackward<T>, RmsNormForward<T>, RmsNormBackward<T>, HeadNormForward<T>,
    HeadNormBackward<T>, MatmulForward<T>, MatmulBackwardInput<T>, MatmulBackwardWeight<T>, BiasBackward<T>,
    PackWeight<T>, Rope<T>, AttentionForward<T>, AttentionBackward<T>, AttentionPartForward<T>,
    AttentionPartBackward<T>, AttentionCached<T>, TakeColumns<T>, JoinColumns<T>, SwiGluForward<T>, SwiGluBackward<T>,
    GatedForward<T>, GatedBackward<T>, CrossEntropy<T>, CrossEntropyPart<T>, CrossEntropyJoined<T>, LossReduce<T>,
    GradientSquareSum<T>, StepDecision<T>, AdamW<T>, MeanOfCopies<T>, Convert<T>, Add<T>, OffloadStore<T>,
    OffloadFetch<T>, OffloadWait<T>, Checksum<T>, PutStepSums<T>, TakeStepSums<T>, AllReduce<T>, ReduceScatter<T>,
    AllGather<T>, AllToAll<T>, Send<T>, Receive<T>, PassOn<T>, CommWait<T>, Clear<T>, AbsMax<T>, QuantizeFp8<T>,
    ScaledMatmul<T>, QuantizeQkv<T>, AttentionForwardFp8<T>, CompressGradient<T>, SumMessages<T>, DropResidual<T>>;

}  // namespace litespark::op
