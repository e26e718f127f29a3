// SPDX-License-Identifier: Apache-2.0
// Attention's forward on 8-bit floats: packed queries, keys and values brought to e4m3 by one scale, and the product of
// the copies. The tensor cores of Hopper read 8-bit operands only where the summed dimension is contiguous in both, so
// values are kept transposed, and their keys stand in the order in which probabilities leave the first product.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/op/attention.h"

namespace litespark::op {

/// Columns of transposed values are exchanged among so many neighbours, counted from the first row of the batch.
inline constexpr int64_t kFp8ValueGroup = 16;

/// Where row n of the values stands among the columns of their transposed copy: of each 16 in the order 0 1 8 9, 2 3 10
/// 11, 4 5 12 13, 6 7 14 15. A thread that holds two neighbouring scores of every eight holds four neighbours then.
constexpr int64_t fp8_value_column(int64_t row) {
  const int64_t place = row % kFp8ValueGroup;
  return row - place + place % 8 / 2 * 4 + place / 8 * 2 + place % 2;
}
/// Columns of the transposed copy: whole 16-byte pieces.
constexpr int64_t fp8_value_columns(int64_t num_rows) {
  return (num_rows + kFp8ValueGroup - 1) / kFp8ValueGroup * kFp8ValueGroup;
}

/// log2 of what probabilities relative to the largest of their row are multiplied by before they are rounded to e4m3:
/// those down to 2^-16 of it do not become 0.
inline constexpr int kFp8ProbabilityBits = 6;

/// Queries, keys and values times s in e4m3, s and its inverse by fp8_scale of the largest magnitude (core/fp8.h).
/// qkv [N, (H + 2 K) D] f32 or bf16; queries_keys [N, (H + K) D]; values [K D, fp8_value_columns(N)], row n of qkv in
/// column fp8_value_column(n), 0 in columns of no row; abs_max [1] f32, read; scale [1] f32, overwritten with what the
/// copies are multiplied by. `state`, optional, counts as for QuantizeFp8, as inputs.
template <class T>
struct QuantizeQkv {
  static constexpr std::string_view kName = "quantize_qkv";
  T queries_keys, values, scale, qkv, abs_max, state;
  int num_heads = 0;     ///< H
  int num_kv_heads = 0;  ///< K
  int head_dim = 0;      ///< D

  template <class F>
  auto map(F&& f) const {
    return QuantizeQkv<decltype(f.in("qkv", qkv))>{.queries_keys = f.out("queries_keys", queries_keys),
                                                   .values = f.out("values", values),
                                                   .scale = f.out("scale", scale),
                                                   .qkv = f.in("qkv", qkv),
                                                   .abs_max = f.in("abs_max", abs_max),
                                                   .state = f.inout("state", state),
                                                   .num_heads = num_heads,
                                                   .num_kv_heads = num_kv_heads,
                                                   .head_dim = head_dim};
  }
};

/// AttentionForward of scale times what QuantizeQkv has written: scores are products of e4m3 summed in f32, their
/// exponentials are rounded to e4m3 for the product with the values, times 2^kFp8ProbabilityBits or a little more, and
/// are summed unrounded. No ALiBi. out f32 or bf16; the other tensors as there, log_sum_exp that of the scores in hand.
template <class T>
struct AttentionForwardFp8 {
  static constexpr std::string_view kName = "attention_forward_fp8";
  T out, log_sum_exp, queries_keys, values, scale, offsets, num_documents, abs_max;
  AttentionShape shape;

  template <class F>
  auto map(F&& f) const {
    return AttentionForwardFp8<decltype(f.in("values", values))>{.out = f.out("out", out),
                                                                 .log_sum_exp = f.out("log_sum_exp", log_sum_exp),
                                                                 .queries_keys = f.in("queries_keys", queries_keys),
                                                                 .values = f.in("values", values),
                                                                 .scale = f.in("scale", scale),
                                                                 .offsets = f.in("offsets", offsets),
                                                                 .num_documents = f.in("num_documents", num_documents),
                                                                 .abs_max = f.inout("abs_max", abs_max),
                                                                 .shape = shape};
  }
};

}  // namespace litespark::op
