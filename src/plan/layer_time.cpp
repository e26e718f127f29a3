// SPDX-License-Identifier: Apache-2.0
#include "plan/layer_time.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/checked.h"
#include "plan/attention_time.h"
#include "plan/tensor_exchange.h"

namespace litespark {
namespace {

struct Pass {
  double forward = 0;
  double backward = 0;
  Pass& operator+=(const Pass& other) {
    forward += other.forward;
    backward += other.backward;
    return *this;
  }
};

bool is_fp8(const Workload& workload, const Hardware& hardware) {
  return workload.precision == OperandPrecision::kFP8 && hardware.fp8_tflops > 0;
}

/// In which tensor-parallel ranks exchange rows and multiply them.
double stretches_of(const Workload& workload, const Software& software) {
  return workload.layout.tp > 1 ? software.tensor_stretches : 1;
}

/// x [rows, k] times a weight [columns, k], and its two products backwards.
ProductSeconds products(double rows, double columns, double k, const Workload& workload, const Software& software,
                        const Hardware& hardware) {
  const OperandPrecision precision = is_fp8(workload, hardware) ? OperandPrecision::kFP8 : OperandPrecision::kBF16;
  const double stretches = stretches_of(workload, software);
  const double part = rows / stretches;
  ProductSeconds out = {.forward = stretches * matmul_seconds(part, columns, k, hardware, precision),
                        .input = stretches * matmul_seconds(part, k, columns, hardware, precision),
                        .weight = matmul_seconds(columns, k, rows, hardware, precision)};
  if (precision == OperandPrecision::kFP8) {
    // Read in 16 bits, written in 8 twice: as it is and transposed.
    out.forward += 4 * rows * k / hardware.memory_rate();
    out.input += 4 * rows * columns / hardware.memory_rate();
    if (!software.caches_fp8_weights) out.forward += 4 * columns * k / hardware.memory_rate();
  }
  return out;
}

Pass pass_of(const ProductSeconds& product) {
  return {product.forward, product.input + product.weight};
}

Pass linear(double rows, double columns, double k, const Workload& workload, const Software& software,
            const Hardware& hardware) {
  return pass_of(products(rows, columns, k, workload, software, hardware));
}

Pass unfused_attention(const Workload& workload, const Hardware& hardware) {
  // Two batched products over all pairs; scores of two bytes are written, masked and normalised, dropped out, read:
  // 11 bytes forward and 17 backward. Batched products with an inner dimension of 128 reach about half the peak.
  constexpr double kBatchedShare = 0.45;
  const double pairs =
      workload.rank_tokens() * real(workload.seq_len) * real(workload.shape.heads) / real(workload.layout.tp);
  const double width = workload.shape.score_features() / real(workload.shape.heads);
  const double products = 4 * pairs * width / (hardware.peak_flops(false) * kBatchedShare);
  return {products + 11 * pairs / hardware.memory_rate(), 2 * products + 17 * pairs / hardware.memory_rate()};
}

Pass tiled_attention(const Workload& workload, const Software& software, const Hardware& hardware) {
  const double flops =
      2 * workload.rank_tokens() * real(workload.seq_len) * workload.shape.score_features() / real(workload.layout.tp);
  AttentionHeads heads = {.length = real(workload.seq_len),
                          .width = workload.shape.score_features() / real(workload.shape.heads),
                          .group = real(workload.shape.heads) / real(workload.shape.kv_heads)};
  const double forward = flops / attention_rate(hardware, software.attention, heads);
  heads.is_backward = true;
  return {forward, 2.5 * flops / attention_rate(hardware, software.attention, heads)};
}

/// Bytes of norms, residual additions, rotation and activation for one token.
Pass pointwise_bytes(const Workload& workload, const Software& software, bool has_experts) {
  const TransformerShape& shape = workload.shape;
  const double t = real(workload.layout.tp);
  const double whole = workload.layout.sequence_parallel ? 1 / t : 1;
  const double c = real(shape.hidden);
  const double rotated = shape.query_features() + shape.kv_features();
  double ffn = real(shape.ffn);
  if (shape.experts) {
    ffn = has_experts ? real(shape.experts->ffn) * real(shape.experts->active + shape.experts->shared)
                      : real(shape.experts->dense_ffn);
  }
  Pass bytes;
  if (!shape.gated) {
    bytes = {20 * c * whole + 4 * ffn / t, 24 * c * whole + 6 * ffn / t};
  } else if (software.fuses_pointwise) {
    bytes = {20 * c * whole + (4 * rotated + 6 * ffn) / t, 24 * c * whole + (4 * rotated + 10 * ffn) / t};
  } else {
    // Each norm in six passes of 32 bits, rotation through complex numbers, the activation in two passes.
    bytes = {84 * c * whole + (30 * rotated + 10 * ffn) / t, 112 * c * whole + (40 * rotated + 16 * ffn) / t};
  }
  if (software.has_dropout) bytes += {2 * c * whole, 2 * c * whole};
  // Tokens are gathered by expert and scattered back.
  if (has_experts) bytes += {8 * c * real(shape.experts->active) / t, 8 * c * real(shape.experts->active) / t};
  return bytes;
}

/// Experts of one rank: matrices of few rows each, padded to whole tiles.
Pass expert_matmuls(const Workload& workload, const Software& software, const Hardware& hardware) {
  constexpr double kTileRows = 128;
  const TransformerShape& shape = workload.shape;
  const ExpertShape& e = *shape.experts;
  const double t = real(workload.layout.tp);
  const double rows = workload.rank_tokens() * real(e.active);
  const double rows_an_expert = rows * real(workload.layout.ep) / real(e.experts);
  const double padded = rows * std::ceil(rows_an_expert / kTileRows) * kTileRows / rows_an_expert;
  const double up = (shape.gated ? 2.0 : 1.0) * real(e.ffn) / t;
  Pass pass = linear(padded, up, real(shape.hidden), workload, software, hardware);
  pass += linear(padded, real(shape.hidden), real(e.ffn) / t, workload, software, hardware);
  if (e.shared > 0) {
    const double tokens = workload.rank_tokens();
    pass += linear(tokens, up * real(e.shared), real(shape.hidden), workload, software, hardware);
    pass += linear(tokens, real(shape.hidden), real(e.ffn * e.shared) / t, workload, software, hardware);
  }
  return pass;
}

/// A layer that reads whole rows, and the one behind it, which makes a part of their sum.
struct LinearPair {
  ProductSeconds cut_columns, cut_rows;
  Pass pass() const {
    Pass sum = pass_of(cut_columns);
    return sum += pass_of(cut_rows);
  }
};

/// C features to `wide` between the two, of which the second reads `read`.
LinearPair linear_pair(double wide, double read, const Workload& workload, const Software& software,
                       const Hardware& hardware) {
  const double tokens = workload.rank_tokens();
  const double c = real(workload.shape.hidden);
  return {products(tokens, wide, c, workload, software, hardware),
          products(tokens, c, read, workload, software, hardware)};
}

LinearPair attention_pair(const Workload& workload, const Software& software, const Hardware& hardware) {
  const TransformerShape& shape = workload.shape;
  const double t = real(workload.layout.tp);
  if (shape.latent) {
    const double out = real(shape.heads) * real(shape.latent->value);
    const double in = shape.attention_parameters() / real(shape.hidden) - out;
    return linear_pair(in / t, out / t, workload, software, hardware);
  }
  const double q = shape.query_features();
  return linear_pair((q + 2 * shape.kv_features()) / t, q / t, workload, software, hardware);
}

LinearPair mlp_pair(const Workload& workload, const Software& software, const Hardware& hardware) {
  const TransformerShape& shape = workload.shape;
  const double ffn = real(shape.experts ? shape.experts->dense_ffn : shape.ffn) / real(workload.layout.tp);
  return linear_pair((shape.gated ? 2 : 1) * ffn, ffn, workload, software, hardware);
}

Pass layer_matmuls(const Workload& workload, const Software& software, const Hardware& hardware, bool has_experts) {
  Pass pass = attention_pair(workload, software, hardware).pass();
  return pass +=
         has_experts ? expert_matmuls(workload, software, hardware) : mlp_pair(workload, software, hardware).pass();
}

RowsExchange rows_exchange(const Workload& workload, const Software& software, const Hardware& hardware) {
  return {.bytes = 2 * workload.rank_tokens() * real(workload.shape.hidden),
          .stretches = stretches_of(workload, software),
          .group = strided_group(workload.layout.tp, 1, hardware),
          .hardware = hardware};
}

/// Two gathers and two reductions of the activations in each direction.
Pass tensor_parallel_seconds(const Workload& workload, const Software& software, const Hardware& hardware) {
  const Layout& layout = workload.layout;
  if (layout.tp == 1) return {};
  const RowsExchange rows = rows_exchange(workload, software, hardware);
  if (software.tensor_stretches > 1 && !workload.shape.experts) {
    Pass pass;
    for (const LinearPair& pair :
         {attention_pair(workload, software, hardware), mlp_pair(workload, software, hardware)}) {
      const ExchangeSeconds exchange = pair_exchange(pair.cut_columns, pair.cut_rows, rows);
      pass += {exchange.forward, exchange.backward};
    }
    return pass;
  }
  const double once = layout.sequence_parallel
                          ? rows.gather_seconds() + rows.sum_seconds()
                          : collective_seconds(Collective::kAllReduce, rows.bytes, rows.group, hardware);
  const double visible = 2 * once * software.tensor_exposed;
  return {visible, visible};
}

/// What the ring of keys and values takes longer than the attention that it hides behind.
Pass context_parallel_seconds(const Workload& workload, const Hardware& hardware, const Pass& attention) {
  const Layout& layout = workload.layout;
  if (layout.cp == 1) return {};
  const double hops = real(layout.cp - 1);
  const double bytes = 4 * workload.rank_tokens() * workload.shape.kv_features() / real(layout.tp);
  const Group group = strided_group(layout.cp, layout.tp, hardware);
  const double forward = hops * hop_seconds(bytes, group, hardware);
  const double backward = hops * hop_seconds(3 * bytes, group, hardware);
  return {std::max(0.0, forward - attention.forward), std::max(0.0, backward - attention.backward)};
}

double expert_exchange_seconds(const Workload& workload, const Hardware& hardware) {
  const Layout& layout = workload.layout;
  if (layout.ep == 1) return 0;
  const double shared = layout.sequence_parallel ? real(layout.tp) : 1;
  const double bytes =
      2 * workload.rank_tokens() / shared * real(workload.shape.experts->active) * real(workload.shape.hidden);
  const Group group = strided_group(layout.ep, layout.tp, hardware);
  return 2 * collective_seconds(Collective::kAllToAll, bytes, group, hardware);
}

/// What whole waves of whole tiles leave of the arithmetic, for the best of the usual tiles; smaller ones read more for
/// each product.
double filled_share(double rows, double columns, double k, int64_t multiprocessors) {
  struct Tile {
    double rows, columns, share;
  };
  constexpr std::array kTiles = {Tile{128, 256, 1},    Tile{256, 128, 1},    Tile{192, 192, 0.99},
                                 Tile{128, 192, 0.98}, Tile{128, 160, 0.97}, Tile{128, 128, 0.95}};
  double best = 0;
  for (const Tile& tile : kTiles) {
    double waves = std::ceil(rows / tile.rows) * std::ceil(columns / tile.columns) / real(multiprocessors);
    double useful = rows * columns / (tile.rows * tile.columns * real(multiprocessors));
    if (waves < 1) {
      // A product of few tiles and many terms, such as a weight's gradient, is split along its terms.
      const double splits = std::clamp(std::floor(1 / waves), 1.0, std::max(1.0, std::floor(k / 1024)));
      waves *= splits;
      useful *= splits;
    }
    // Many waves overlap at their ends.
    const double passes = waves > 6 ? waves + 0.25 : std::ceil(waves);
    best = std::max(best, tile.share * useful / passes);
  }
  return best;
}

double recomputed_seconds(const Workload& workload, const Software& software, const Pass& matmul, const Pass& attention,
                          const Pass& pointwise, double whole_forward) {
  if (workload.recompute == LayerRecompute::kNone) return 0;
  if (workload.recompute == LayerRecompute::kFull) return whole_forward;
  if (software.saves_every_second_matmul) return pointwise.forward + 0.45 * matmul.forward;
  // Only the scores; tiled attention recomputes them anyway.
  return software.attention == AttentionKernel::kUnfused ? attention.forward : 0;
}

}  // namespace

double matmul_seconds(double rows, double columns, double k, const Hardware& hardware, OperandPrecision precision) {
  const bool fp8 = precision == OperandPrecision::kFP8 && hardware.fp8_tflops > 0;
  // 8-bit products take twice the inner dimension to fill the same pipeline.
  const double half = hardware.matmul_half_k * (fp8 ? 2 : 1);
  const double share = hardware.matmul_efficiency * (fp8 ? 0.95 : 1) * k / (k + half);
  const double filled = hardware.multiprocessors > 0 ? filled_share(rows, columns, k, hardware.multiprocessors) : 1;
  const double arithmetic = 2 * rows * columns * k / (hardware.peak_flops(fp8) * share * filled);
  const double element = fp8 ? 1 : 2;
  const double traffic = (element * (rows * k + columns * k) + 2 * rows * columns) / hardware.memory_rate();
  return std::max(arithmetic, traffic) + 1e-6 * hardware.op_overhead_us;
}

LayerSeconds layer_seconds(const Workload& workload, const Software& software, const Hardware& hardware,
                           bool has_experts) {
  const Pass matmul = layer_matmuls(workload, software, hardware, has_experts);
  const Pass attention = software.attention == AttentionKernel::kUnfused
                             ? unfused_attention(workload, hardware)
                             : tiled_attention(workload, software, hardware);
  Pass pointwise = pointwise_bytes(workload, software, has_experts);
  const double rate = hardware.memory_rate() / workload.rank_tokens();
  pointwise = {pointwise.forward / rate, pointwise.backward / rate};
  const Pass tensor = tensor_parallel_seconds(workload, software, hardware);
  const Pass context = context_parallel_seconds(workload, hardware, attention);
  const double expert = has_experts ? expert_exchange_seconds(workload, hardware) : 0;
  LayerSeconds out;
  out.forward = matmul.forward + attention.forward + pointwise.forward + tensor.forward + context.forward + expert;
  out.recompute = recomputed_seconds(workload, software, matmul, attention, pointwise, out.forward);
  out.backward = matmul.backward + attention.backward + pointwise.backward + tensor.backward + context.backward +
                 expert + out.recompute;
  out.matmul = matmul.forward + matmul.backward;
  out.attention = attention.forward + attention.backward;
  out.pointwise = pointwise.forward + pointwise.backward;
  out.tensor = tensor.forward + tensor.backward;
  out.context = context.forward + context.backward;
  out.expert = 2 * expert;
  return out;
}

LayerSeconds head_seconds(const Workload& workload, const Software& software, const Hardware& hardware) {
  Workload plain = workload;
  plain.precision = OperandPrecision::kBF16;
  const double columns = real(workload.shape.vocab) / real(workload.layout.tp);
  const Pass matmul = linear(workload.rank_tokens(), columns, real(workload.shape.hidden), plain, software, hardware);
  // Logits: written, read once and overwritten with their gradient, or through 32-bit copies.
  const Pass bytes = software.fused_loss ? Pass{2, 6} : Pass{10, 16};
  const double logits = workload.rank_tokens() * columns / hardware.memory_rate();
  LayerSeconds out;
  out.forward = matmul.forward + bytes.forward * logits;
  out.backward = matmul.backward + bytes.backward * logits;
  out.matmul = matmul.forward + matmul.backward;
  out.pointwise = (bytes.forward + bytes.backward) * logits;
  if (workload.layout.tp > 1 && software.tensor_stretches > 1) {
    const ExchangeSeconds ends = ends_exchange(rows_exchange(workload, software, hardware));
    out.tensor = ends.forward + ends.backward;
    out.forward += ends.forward;
    out.backward += ends.backward;
  }
  return out;
}

}  // namespace litespark
