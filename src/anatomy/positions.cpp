// SPDX-License-Identifier: Apache-2.0
#include "anatomy/positions.h"

#include <algorithm>
#include <cmath>

#include "anatomy/attention.h"
#include "core/checked.h"
#include "spec/model_config.h"

namespace litespark::anatomy {
namespace {

op::AttentionShape shape_of(const PositionSizes& sizes, bool has_alibi) {
  op::AttentionShape shape = attention_shape({.tokens = sizes.sequences * sizes.length,
                                              .heads = sizes.heads,
                                              .kv_heads = sizes.kv_heads,
                                              .head_dim = sizes.head_dim},
                                             sizes.length);
  shape.has_alibi = has_alibi;
  return shape;
}

Table error_table(int64_t head_dim) {
  Table table{.key = "angles",
              .title = "largest error of a cosine or sine, by where the sequence ends",
              .columns = {"positions", "angle in bf16", "angle in half", "angle in f32", "cosine kept in bf16",
                          "cosine kept in half"},
              .rows = {}};
  for (const int64_t last : {256, 2048, 8192, 32768}) {
    const AngleErrors errors = angle_errors(head_dim, last);
    table.rows.push_back({quantity(real(last), "", 0), quantity(errors.bf16_angle, "", 4),
                          quantity(errors.fp16_angle, "", 4), quantity(errors.f32_angle, "", 6),
                          quantity(errors.bf16_table, "", 4), quantity(errors.fp16_table, "", 5)});
  }
  return table;
}

Table precision_table(const PositionSizes& sizes, const std::vector<std::pair<std::string, RopeCost>>& costs) {
  Table table{.key = "precision",
              .title =
                  "cosines and sines by precision.rope, rotated by the op of training: rms errors of f32 values and "
                  "of this run's dtype over the values' rms, largest error of q k over |q| |k|",
              .columns = {"precision.rope", "table", "ns/token", "error, f32", "error, rounded", "error of q k"},
              .rows = {}};
  for (const auto& [name, cost] : costs) {
    const double nanoseconds = 1e9 * cost.seconds / real(sizes.sequences * sizes.length);
    table.rows.push_back({words(name), bytes_value(cost.table_bytes), quantity(nanoseconds, "", 2),
                          quantity(cost.f32_error, "", 8), quantity(cost.compute_error, "", 6),
                          quantity(cost.score_error, "", 8)});
  }
  return table;
}

Value per_token(double seconds, const PositionSizes& sizes) {
  const double milliseconds = 1e3 * seconds / real(sizes.sequences * sizes.length);
  return quantity(milliseconds, "ms/token", 6);
}

std::vector<Finding> findings_of(const PositionSizes& sizes, double rope_seconds, const AttentionSpeed& plain,
                                 const AttentionSpeed& alibi) {
  const double rope_bytes = 4.0 * real(sizes.length * sizes.head_dim);
  const double bias_bytes = 2.0 * real(sizes.heads * sizes.length * sizes.length);
  const double both = plain.forward_seconds + plain.backward_seconds;
  const double extra = alibi.forward_seconds + alibi.backward_seconds - both;
  const AngleErrors errors = angle_errors(sizes.head_dim, sizes.length);
  return {
      {.key = "rope_bytes",
       .what = "static bytes, rotary",
       .ours = bytes_value(rope_bytes),
       .claim = "C5",
       .published = "128 MB"},
      {.key = "alibi_bytes",
       .what = "static bytes, ALiBi",
       .ours = bytes_value(0),
       .claim = "C5",
       .published = "0 MB, saves 96 MB of bias (32 x 2048^2 in BF16 are 256 MiB)",
       .advice = "neither form needs memory that matters: a rotary table is one row a position, and a bias of " +
                 bytes_value(bias_bytes).text + " is never stored, since slopes times distance are made in the tile"},
      {.key = "rope_forward",
       .what = "rotating queries and keys, one layer forward",
       .ours = per_token(rope_seconds, sizes),
       .claim = "C5",
       .published = "0.023 ms/token (A100, batch 4, 2048 tokens; layers not stated)"},
      {.key = "alibi_forward",
       .what = "attention's bias, one layer forward",
       .ours = per_token(alibi.forward_seconds - plain.forward_seconds, sizes),
       .claim = "C5",
       .published = "0.041 ms/token",
       .advice = "in backward the bias is made again and the rotation turned back: see the next two"},
      {.key = "rope_share",
       .what = "rotation, both ways, over attention's own time",
       .ours = percent(2 * rope_seconds / both)},
      {.key = "alibi_share", .what = "bias, both ways, over attention's own time", .ours = percent(extra / both)},
      {.key = "angle_error",
       .what = "16-bit angles at " + std::to_string(sizes.length) + " positions, bf16 and half",
       .ours = {.text = quantity(errors.bf16_angle, "", 3).text + " and " + quantity(errors.fp16_angle, "", 3).text,
                .number = errors.bf16_angle,
                .unit = "of 1"},
       .claim = "L3",
       .published = "RoPE in FP16",
       .advice =
           "make angles in f32 or wider whatever the values' dtype is: bf16 cannot tell position 257 from 256 and "
           "half precision has no odd numbers past 2048; their cosines may be kept in 16 bits (precision.rope)"}};
}

}  // namespace

double rounded_to_bits(double value, int bits) {
  if (value == 0 || !std::isfinite(value)) return value;
  int exponent = 0;
  const double mantissa = std::frexp(value, &exponent);  // 0.5 <= |mantissa| < 1
  return std::ldexp(std::nearbyint(std::ldexp(mantissa, bits)), exponent - bits);
}

AngleErrors angle_errors(int64_t head_dim, int64_t last_position) {
  const std::vector<double> frequencies = rope_frequencies({}, head_dim);
  const auto distance = [](double exact, double angle) {
    return std::max(std::abs(std::cos(angle) - std::cos(exact)), std::abs(std::sin(angle) - std::sin(exact)));
  };
  const auto angle_in = [](double position, double frequency, int bits) {
    return rounded_to_bits(rounded_to_bits(position, bits) * rounded_to_bits(frequency, bits), bits);
  };
  AngleErrors errors;
  for (int64_t place = 0; place < last_position; ++place) {
    const double position = real(place);
    for (const double frequency : frequencies) {
      const double exact = position * frequency;
      errors.bf16_angle = std::max(errors.bf16_angle, distance(exact, angle_in(position, frequency, 8)));
      errors.fp16_angle = std::max(errors.fp16_angle, distance(exact, angle_in(position, frequency, 11)));
      errors.f32_angle = std::max(errors.f32_angle, distance(exact, angle_in(position, frequency, 24)));
      const double cosine = std::cos(exact);
      errors.bf16_table = std::max(errors.bf16_table, std::abs(rounded_to_bits(cosine, 8) - cosine));
      errors.fp16_table = std::max(errors.fp16_table, std::abs(rounded_to_bits(cosine, 11) - cosine));
    }
  }
  return errors;
}

Chapter positions_chapter(Backend& backend, const MeasureOptions& options, const PositionSizes& sizes) {
  std::vector<std::pair<std::string, RopeCost>> costs;
  for (const RopePrecision precision : {RopePrecision::kF32, RopePrecision::kBF16, RopePrecision::kF16}) {
    costs.emplace_back(rope_precision_name(precision), measure_rope(backend, options, sizes, precision));
  }
  const AttentionSpeed plain = measure_attention(backend, options, shape_of(sizes, false));
  const AttentionSpeed alibi = measure_attention(backend, options, shape_of(sizes, true));
  Chapter chapter{.name = "positions", .title = "rotary positions and ALiBi"};
  chapter.setup = {{"attention", std::to_string(sizes.sequences) + " x " + std::to_string(sizes.length) + " tokens, " +
                                     std::to_string(sizes.heads) + " heads of " + std::to_string(sizes.head_dim) +
                                     ", " + std::string(dtype_name(options.compute))},
                   {"definitions",
                    "model.positions = \"rope\" (Su et al. 2021) and \"alibi\" (Press et al. 2022); the "
                    "source's kernel divides theta the wrong way round and takes pos % 2 in its exponent"}};
  chapter.findings = findings_of(sizes, costs.front().second.seconds, plain, alibi);
  chapter.tables = {error_table(sizes.head_dim), precision_table(sizes, costs)};
  return chapter;
}

}  // namespace litespark::anatomy
