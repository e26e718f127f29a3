// SPDX-License-Identifier: Apache-2.0
// Gradients as 16-bit messages that ranks add in f32, with what rounding took away kept for the next message.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/compression.h"

namespace litespark::op {

/// s = gradient + residual; message = s rounded to 16 bits, ties to even; residual = s - message, which is exact; 0
/// where the message is not finite. gradient, residual [R S] f32, the residual optional; message [R message_words(S)]
/// u16, a message to each rank. An Inf or NaN stays one. With kFP16 each kMessageBlock of a message's elements is
/// multiplied by 2^k such that the largest finite one is below 2^15, |k| <= 126; the words of k, as i16, stand behind
/// the elements.
template <class T>
struct CompressGradient {
  static constexpr std::string_view kName = "compress_gradient";
  T message, residual, gradient;
  int ranks = 1;  ///< R
  Compression format = Compression::kBF16;

  template <class F>
  auto map(F&& f) const {
    return CompressGradient<decltype(f.in("gradient", gradient))>{.message = f.out("message", message),
                                                                  .residual = f.inout("residual", residual),
                                                                  .gradient = f.in("gradient", gradient),
                                                                  .ranks = ranks,
                                                                  .format = format};
  }
};

/// sum = what the messages of all ranks say, added in f32 in rank order. sum [S] f32, overwritten; messages
/// [R message_words(S)] u16, one of each rank.
template <class T>
struct SumMessages {
  static constexpr std::string_view kName = "sum_messages";
  T sum, messages;
  int ranks = 1;
  Compression format = Compression::kBF16;

  template <class F>
  auto map(F&& f) const {
    return SumMessages<decltype(f.in("messages", messages))>{
        .sum = f.out("sum", sum), .messages = f.in("messages", messages), .ranks = ranks, .format = format};
  }
};

/// residual = 0 where the step was skipped, whose messages are dropped too: all ranks begin the next one alike.
/// residual f32 of any shape.
template <class T>
struct DropResidual {
  static constexpr std::string_view kName = "drop_residual";
  T residual, state;

  template <class F>
  auto map(F&& f) const {
    return DropResidual<decltype(f.in("state", state))>{.residual = f.inout("residual", residual),
                                                        .state = f.in("state", state)};
  }
};

}  // namespace litespark::op
