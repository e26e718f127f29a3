// SPDX-License-Identifier: Apache-2.0
// Rotary positions and causal attention over packed documents. Every batch is N tokens of documents laid end to end;
// B separate rows of length T are B documents of length T.
#pragma once

#include <cmath>
#include <compare>
#include <cstdint>
#include <string_view>

namespace litespark::op {

/// Rotates, in place, the first H + K heads of a packed [N, (H + 2 K) D] tensor: pair (i, i + D/2) of a head rotates by
/// positions[n] * frequency_i (Su et al. 2021, half-split layout of Hugging Face). `inverse` rotates back: the
/// gradient. table [P, D] f32, bf16 or f16: row p holds D/2 cosines then D/2 sines; positions [N] i32 < P. Products and
/// sums are f32 whatever the table is kept in. abs_max [1] f32, when present, is raised to max |qkv| as op::AbsMax
/// does, over what was rotated and what was not.
template <class T>
struct Rope {
  static constexpr std::string_view kName = "rope";
  T qkv, table, positions, abs_max;
  int num_rotated_heads = 0;  ///< H + K
  int num_heads_total = 0;    ///< H + 2 K
  int head_dim = 0;           ///< D
  bool inverse = false;

  template <class F>
  auto map(F&& f) const {
    return Rope<decltype(f.in("table", table))>{.qkv = f.inout("qkv", qkv),
                                                .table = f.in("table", table),
                                                .positions = f.in("positions", positions),
                                                .abs_max = f.inout("abs_max", abs_max),
                                                .num_rotated_heads = num_rotated_heads,
                                                .num_heads_total = num_heads_total,
                                                .head_dim = head_dim,
                                                .inverse = inverse};
  }
};

/// log2 of ALiBi's slope of a head (Press, Smith and Lewis 2022, section 3): with n heads, n a power of two, the slopes
/// are 2^(-8 / n), 2^(-16 / n), ... 2^-8. For another n: those of the power of two below it, then every other one of
/// the power of two above it, from the first on.
constexpr double alibi_log2_slope(int head, int num_heads) {
  int below = 1;
  while (2 * below <= num_heads) below *= 2;
  const int place = head < below ? 2 * (head + 1) : 2 * (head - below) + 1;
  return -8.0 * place / (2.0 * below);
}
inline float alibi_slope(int head, int num_heads) {
  return static_cast<float>(std::exp2(alibi_log2_slope(head, num_heads)));
}

/// Query heads that are switched off: nothing of theirs is read and no work is scheduled for them. Their columns of out
/// and dqkv and their log_sum_exp are 0; a kv head's gradient is the share of its heads that are on, 0 without any.
/// Known when an op is made, so that grids and counted FLOPs follow. Kernels take it by value.
struct HeadGates {
  static constexpr int kMostHeads = 256;
  uint64_t off[kMostHeads / 64] = {};

  constexpr bool any_off() const { return (off[0] | off[1] | off[2] | off[3]) != 0; }
  constexpr bool is_on(int head) const {
    // Not indexed: registers of the Hopper kernels are all taken, and this needs the fewest.
    const uint64_t word = head < 64 ? off[0] : head < 128 ? off[1] : head < 192 ? off[2] : off[3];
    return head >= kMostHeads || (word >> (head % 64) & 1) == 0;
  }
  constexpr void switch_off(int head) { off[head / 64] |= uint64_t{1} << (head % 64); }
  /// Of `count` heads from `first` on.
  constexpr int num_on(int first, int count) const {
    if (!any_off()) return count;
    int on = 0;
    for (int head = first; head < first + count; ++head) on += is_on(head) ? 1 : 0;
    return on;
  }
  /// The head that is on with `index` others between it and `first`; there must be one.
  constexpr int nth_on(int first, int index) const {
    if (!any_off()) return first + index;
    int head = first;
    for (; index > 0 || !is_on(head); ++head) index -= is_on(head) ? 1 : 0;
    return head;
  }
  /// Of `groups` groups of `size` heads each, those with a head that is on, and the one with `index` such before it.
  constexpr int num_busy(int groups, int size) const {
    int busy = 0;
    for (int group = 0; group < groups; ++group) busy += num_on(group * size, size) > 0 ? 1 : 0;
    return busy;
  }
  constexpr int nth_busy(int size, int index) const {
    if (!any_off()) return index;
    int group = 0;
    for (bool busy = num_on(0, size) > 0; index > 0 || !busy; busy = num_on(group * size, size) > 0) {
      index -= busy ? 1 : 0;
      ++group;
    }
    return group;
  }

  auto operator<=>(const HeadGates&) const = default;
};

/// What forward and backward share. A query at position i of its document sees keys j of the same document with
/// i - window < j <= i (window 0: all j <= i).
struct AttentionShape {
  int num_heads = 0;     ///< H
  int num_kv_heads = 0;  ///< K, divides H
  int head_dim = 0;      ///< D
  int window = 0;
  float scale = 0;         ///< 1 / sqrt(D)
  int max_documents = 0;   ///< capacity of the offsets
  int max_length = 0;      ///< no document is longer
  bool uniform = false;    ///< every document has exactly max_length tokens and N = max_documents * max_length
  bool has_alibi = false;  ///< scaled scores lose alibi_slope(head, H) (i - j)
  HeadGates gates;         ///< not in parts
};

/// out = softmax(scale q k^T - slope (i - j) + mask) v per head, the slope 0 without ALiBi, online over tiles: no T x T
/// matrix ever exists. out [N, H D]; log_sum_exp [H, N] f32 (natural log of the scaled scores' sum); qkv [N, (H + 2 K)
/// D]; offsets [max_documents + 1] i32: document d is rows offsets[d] .. offsets[d+1]; num_documents [1] i32. Rows past
/// the last document are written as 0. scratch: bytes the backend asks for, may be absent. abs_max [1] f32, when
/// present, is raised to max |out| as op::AbsMax does.
///
/// table and positions, when present, are those of op::Rope: q and k are rotated as they are read, and qkv stays as it
/// is. rotated then is a tensor like qkv, for backends whose kernels need a rotated copy; others leave it alone.
template <class T>
struct AttentionForward {
  static constexpr std::string_view kName = "attention_forward";
  T out, log_sum_exp, qkv, offsets, num_documents, scratch, abs_max;
  T table = {}, positions = {}, rotated = {};
  AttentionShape shape;

  template <class F>
  auto map(F&& f) const {
    return AttentionForward<decltype(f.in("qkv", qkv))>{.out = f.out("out", out),
                                                        .log_sum_exp = f.out("log_sum_exp", log_sum_exp),
                                                        .qkv = f.in("qkv", qkv),
                                                        .offsets = f.in("offsets", offsets),
                                                        .num_documents = f.in("num_documents", num_documents),
                                                        .scratch = f.out("scratch", scratch),
                                                        .abs_max = f.inout("abs_max", abs_max),
                                                        .table = f.in("table", table),
                                                        .positions = f.in("positions", positions),
                                                        .rotated = f.out("rotated", rotated),
                                                        .shape = shape};
  }
};

/// Gradient of AttentionForward with scores recomputed tile by tile. dqkv [N, (H + 2 K) D] is overwritten (rows past
/// the last document with 0). qkv holds q and k as they were multiplied. table and positions, when present, are those
/// by which op::Rope had rotated them, and dq and dk are rotated back: the gradient of what was rotated, rounded once
/// where the kernel itself rotates. abs_max [1] f32, when present, is raised to max |dqkv| as op::AbsMax does.
template <class T>
struct AttentionBackward {
  static constexpr std::string_view kName = "attention_backward";
  T dqkv, dout, qkv, out, log_sum_exp, offsets, num_documents, scratch;
  T table = {}, positions = {}, abs_max = {};
  AttentionShape shape;

  template <class F>
  auto map(F&& f) const {
    return AttentionBackward<decltype(f.in("qkv", qkv))>{.dqkv = f.out("dqkv", dqkv),
                                                         .dout = f.in("dout", dout),
                                                         .qkv = f.in("qkv", qkv),
                                                         .out = f.in("out", out),
                                                         .log_sum_exp = f.in("log_sum_exp", log_sum_exp),
                                                         .offsets = f.in("offsets", offsets),
                                                         .num_documents = f.in("num_documents", num_documents),
                                                         .scratch = f.out("scratch", scratch),
                                                         .table = f.in("table", table),
                                                         .positions = f.in("positions", positions),
                                                         .abs_max = f.inout("abs_max", abs_max),
                                                         .shape = shape};
  }
};

/// The rotation of q and k as an op by itself, before AttentionForward or, with its abs_max, behind AttentionBackward.
template <class Op, class T>
Rope<T> rotation_of(const Op& op, const T& qkv, bool inverse) {
  const AttentionShape& shape = op.shape;
  return {.qkv = qkv,
          .table = op.table,
          .positions = op.positions,
          .abs_max = inverse ? op.abs_max : T{},
          .num_rotated_heads = shape.num_heads + shape.num_kv_heads,
          .num_heads_total = shape.num_heads + 2 * shape.num_kv_heads,
          .head_dim = shape.head_dim,
          .inverse = inverse};
}

/// Which of the 2 R equal chunks of a micro-batch's N rows one of R context ranks holds: the r-th, and behind it in the
/// rank's own tensors, `half` = 1, the r-th from the end. Whoever has early rows, which see little, has late ones too.
constexpr int64_t context_chunk(int64_t ranks, int64_t rank, int half) {
  return half == 0 ? rank : 2 * ranks - 1 - rank;
}

/// Whose rows meet in one part of attention that context ranks share.
struct ContextPart {
  int ranks = 1;       ///< R
  int query_rank = 0;  ///< whose rows the queries are
  int key_rank = 0;    ///< whose rows the keys are
};

/// What queries see of one rank's keys and values, merged with what they saw of other ranks': afterwards out and
/// log_sum_exp are those of AttentionForward over all keys seen so far. `first`: nothing was seen before, and both are
/// overwritten; a query that has seen no key has out 0 and log_sum_exp -infinity. out [n, H D] f32, n = N / R rows of
/// query_rank; log_sum_exp [H, n] f32; qkv [n, (H + 2 K) D], of which the queries are read; keys_values [n, 2 K D], n
/// rows of key_rank: keys, then values; offsets and num_documents are those of the whole micro-batch, in rows of it.
template <class T>
struct AttentionPartForward {
  static constexpr std::string_view kName = "attention_part_forward";
  T out, log_sum_exp, qkv, keys_values, offsets, num_documents, scratch;
  AttentionShape shape;
  ContextPart part;
  bool first = false;

  template <class F>
  auto map(F&& f) const {
    return AttentionPartForward<decltype(f.in("qkv", qkv))>{
        .out = first ? f.out("out", out) : f.inout("out", out),
        .log_sum_exp = first ? f.out("log_sum_exp", log_sum_exp) : f.inout("log_sum_exp", log_sum_exp),
        .qkv = f.in("qkv", qkv),
        .keys_values = f.in("keys_values", keys_values),
        .offsets = f.in("offsets", offsets),
        .num_documents = f.in("num_documents", num_documents),
        .scratch = f.out("scratch", scratch),
        .shape = shape,
        .part = part,
        .first = first};
  }
};

/// Gradient of what the queries saw of one rank's keys and values. dqueries [n, H D] f32 receives this part's share, in
/// addition to what stands there, or, with `first`, alone; dkeys_values [n, 2 K D] f32 is overwritten with the share of
/// these queries. out, log_sum_exp: of all keys, out in the dtype of qkv; dout [n, H D]; the others as in forward.
template <class T>
struct AttentionPartBackward {
  static constexpr std::string_view kName = "attention_part_backward";
  T dqueries, dkeys_values, dout, qkv, keys_values, out, log_sum_exp, offsets, num_documents, scratch;
  AttentionShape shape;
  ContextPart part;
  bool first = false;

  template <class F>
  auto map(F&& f) const {
    return AttentionPartBackward<decltype(f.in("qkv", qkv))>{
        .dqueries = first ? f.out("dqueries", dqueries) : f.inout("dqueries", dqueries),
        .dkeys_values = f.out("dkeys_values", dkeys_values),
        .dout = f.in("dout", dout),
        .qkv = f.in("qkv", qkv),
        .keys_values = f.in("keys_values", keys_values),
        .out = f.in("out", out),
        .log_sum_exp = f.in("log_sum_exp", log_sum_exp),
        .offsets = f.in("offsets", offsets),
        .num_documents = f.in("num_documents", num_documents),
        .scratch = f.out("scratch", scratch),
        .shape = shape,
        .part = part,
        .first = first};
  }
};

/// Attention of new tokens against a cache, for generation. The new tokens' keys and values are appended to the cache
/// (rows past_lengths[b] ...) first; then each query sees all cache rows up to its own position, within the window.
/// out [N, H D]; qkv [N, (H + 2 K) D] with N = B * new tokens a sequence; cache [B, capacity, 2 K D]; past_lengths [B]
/// i32: rows already filled. The caller advances past_lengths afterwards.
template <class T>
struct AttentionCached {
  static constexpr std::string_view kName = "attention_cached";
  T out, cache, qkv, past_lengths;
  AttentionShape shape;
  int batch = 0;     ///< B
  int capacity = 0;  ///< rows a sequence may fill

  template <class F>
  auto map(F&& f) const {
    return AttentionCached<decltype(f.in("qkv", qkv))>{.out = f.out("out", out),
                                                       .cache = f.inout("cache", cache),
                                                       .qkv = f.in("qkv", qkv),
                                                       .past_lengths = f.in("past_lengths", past_lengths),
                                                       .shape = shape,
                                                       .batch = batch,
                                                       .capacity = capacity};
  }
};

}  // namespace litespark::op
