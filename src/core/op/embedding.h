// SPDX-License-Identifier: Apache-2.0
// Token embedding: a row lookup, and its deterministic gradient.
#pragma once

#include <cstdint>
#include <string_view>

namespace litespark::op {

/// x[n] = table[ids[n]].
/// out [N, C] f32/bf16, table [V, C] f32/bf16, ids [N] i32, state (StepState, counts bad ids; such rows become 0);
/// remainder [V, C] u16, when present: the low half of an f32 table whose upper half is the bf16 `table`
/// (core/bf16_rounding.h). `out` is overwritten. With `vocab` > 0 the table holds ids from `first_id` on, of [0,
/// vocab): rows of ids that other ranks hold become 0 and are not bad.
template <class T>
struct EmbeddingForward {
  static constexpr std::string_view kName = "embedding_forward";
  T out, table, remainder, ids, state;
  int64_t first_id = 0;
  int64_t vocab = 0;

  template <class F>
  auto map(F&& f) const {
    return EmbeddingForward<decltype(f.in("table", table))>{.out = f.out("out", out),
                                                            .table = f.in("table", table),
                                                            .remainder = f.in("remainder", remainder),
                                                            .ids = f.in("ids", ids),
                                                            .state = f.inout("state", state),
                                                            .first_id = first_id,
                                                            .vocab = vocab};
  }
};

/// dtable[ids[n]] += dout[n], each row summed in token order by one owner: the same bits for any thread count.
/// dtable [V, C] f32; dout [N, C]; ids [N] i32; scratch [2 N + V + 1] i32 (counting sort).
/// `accumulate` false: rows that no token names become 0. The table holds ids from `first_id` on; others are left out.
template <class T>
struct EmbeddingBackward {
  static constexpr std::string_view kName = "embedding_backward";
  T dtable, dout, ids, scratch;
  bool accumulate = false;
  int64_t first_id = 0;

  template <class F>
  auto map(F&& f) const {
    return EmbeddingBackward<decltype(f.in("dout", dout))>{
        .dtable = accumulate ? f.inout("dtable", dtable) : f.out("dtable", dtable),
        .dout = f.in("dout", dout),
        .ids = f.in("ids", ids),
        .scratch = f.out("scratch", scratch),
        .accumulate = accumulate,
        .first_id = first_id};
  }
};

}  // namespace litespark::op
