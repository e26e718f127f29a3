// SPDX-License-Identifier: Apache-2.0
// Gradients as 16-bit messages: rounded, added up, and what rounding took away.
#include <algorithm>

#include "core/step_state.h"
#include "ops/cpu/cpu_backend_impl.h"
#include "ops/cpu/kernel_table.h"
#include "ops/cpu/parallel.h"

namespace litespark::cpu {
namespace {

/// Where the blocks of a message of `piece` elements lie.
struct MessageLayout {
  int64_t piece = 0;
  int64_t words = 0;
  int64_t blocks = 0;

  MessageLayout(Compression format, int64_t elements)
      : piece(elements), words(message_words(format, elements)), blocks(ceil_div(elements, kMessageBlock)) {}

  MessageBlock block(uint16_t* message, int64_t index) const {
    const int64_t first = index * kMessageBlock;
    return {.words = message + first,
            .exponent = message + piece + index,
            .gradient = nullptr,
            .residual = nullptr,
            .size = std::min(kMessageBlock, piece - first)};
  }
};

}  // namespace

void CpuBackend::run(const op::CompressGradient<Tensor>& op) {
  const MessageLayout layout(op.format, op.gradient.num_elements() / op.ranks);
  const auto compress = kernel_table(isa_).compress;
  parallel_blocks(threads_, op.ranks * layout.blocks, [&](int64_t index) {
    const int64_t rank = index / layout.blocks;
    MessageBlock block = layout.block(op.message.as<uint16_t>() + rank * layout.words, index % layout.blocks);
    const int64_t first = rank * layout.piece + (index % layout.blocks) * kMessageBlock;
    block.gradient = op.gradient.as<const float>() + first;
    if (op.residual.has_value()) block.residual = op.residual.as<float>() + first;
    compress(block, op.format);
  });
}

void CpuBackend::run(const op::SumMessages<Tensor>& op) {
  const MessageLayout layout(op.format, op.sum.num_elements());
  const auto add_message = kernel_table(isa_).add_message;
  parallel_blocks(threads_, layout.blocks, [&](int64_t index) {
    float* const sum = op.sum.as<float>() + index * kMessageBlock;
    for (int64_t rank = 0; rank < op.ranks; ++rank) {
      add_message(sum, layout.block(op.messages.as<uint16_t>() + rank * layout.words, index), op.format, rank == 0);
    }
  });
}

void CpuBackend::run(const op::DropResidual<Tensor>& op) {
  if (static_cast<const StepState*>(op.state.data)->skipped == 0) return;
  std::fill_n(op.residual.as<float>(), op.residual.num_elements(), 0.0f);
}

}  // namespace litespark::cpu
