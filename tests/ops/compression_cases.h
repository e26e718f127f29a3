// SPDX-License-Identifier: Apache-2.0
// Gradients as 16-bit messages, on any backend, held against doubles.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "support/op_case.h"

namespace litespark::test {

inline constexpr Compression kMessageFormats[] = {Compression::kBF16, Compression::kFP16};

/// Elements of a piece: around a block, and no multiple of anything.
inline constexpr int64_t kPieceSizes[] = {1, 17, 4095, 4096, 4097, 9001};

inline std::string format_text(Compression format) {
  return format == Compression::kBF16 ? "bf16" : "fp16";
}

inline OpCase<op::CompressGradient<Tensor>> compress_case(Compression format, int ranks, std::vector<double> gradient,
                                                          std::vector<double> residual) {
  const auto size = static_cast<int64_t>(gradient.size());
  OpCase<op::CompressGradient<Tensor>> test{
      .name = format_text(format) + " " + std::to_string(size),
      .op = {.message = shape_only(DType::kU16, {ranks * message_words(format, size / ranks)}),
             .residual = residual.empty() ? Tensor{} : shape_only(DType::kF32, {size}),
             .gradient = shape_only(DType::kF32, {size}),
             .ranks = ranks,
             .format = format},
      .inputs = {.tensors = {{"gradient", std::move(gradient)}}, .state = {}}};
  if (!residual.empty()) test.inputs.tensors["residual"] = std::move(residual);
  return test;
}

/// A 16-bit float of `mantissa` bits behind the leading one, and a smallest exponent.
inline double float_of_word(int word, int mantissa, int bias) {
  const int sign = word & 0x8000;
  const int exponent = (word & 0x7fff) >> mantissa;
  const int fraction = word & ((1 << mantissa) - 1);
  double value = std::ldexp(fraction, 1 - bias - mantissa);
  if (exponent > 0) value = std::ldexp(1.0 + std::ldexp(fraction, -mantissa), exponent - bias);
  if (exponent == (0x7fff >> mantissa)) value = fraction == 0 ? INFINITY : NAN;
  return sign != 0 ? -value : value;
}

/// The power of two of a block, or 0.
inline int exponent_of(Compression format, const std::vector<double>& message, int64_t piece, int64_t block) {
  if (format == Compression::kBF16) return 0;
  return static_cast<int16_t>(static_cast<uint16_t>(message[static_cast<size_t>(piece + block)]));
}

/// What one message of `piece` elements, which begins at `first`, says.
inline std::vector<double> told_by(Compression format, const std::vector<double>& words, int64_t piece,
                                   int64_t first = 0) {
  const std::vector<double> message(words.begin() + static_cast<std::ptrdiff_t>(first), words.end());
  std::vector<double> told;
  for (int64_t i = 0; i < piece; ++i) {
    const int word = static_cast<int>(message[static_cast<size_t>(i)]);
    const double value = format == Compression::kBF16 ? float_of_word(word, 7, 127) : float_of_word(word, 10, 15);
    told.push_back(std::ldexp(value, -exponent_of(format, message, piece, i / kMessageBlock)));
  }
  return told;
}

/// To the nearest multiple of what the format has at `value`, ties to even.
inline double nearest_told(Compression format, double value, int exponent) {
  if (format == Compression::kBF16) return round_to(DType::kBF16, value);
  const double scaled = std::ldexp(value, exponent);
  const int lowest = scaled == 0 ? -14 : std::max(std::ilogb(scaled), -14);
  const double step = std::ldexp(1.0, lowest - 10);
  return std::ldexp(std::nearbyint(scaled / step) * step, -exponent);
}

/// Magnitudes over `decades` powers of ten.
inline std::vector<double> spread_values(int64_t size, uint64_t seed, double decades) {
  std::vector<double> values = random_normal(DType::kF32, size, seed);
  const std::vector<double> powers = random_normal(DType::kF32, size, seed + 1);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = round_to(DType::kF32, values[i] * std::pow(10.0, decades * std::sin(powers[i])));
  }
  return values;
}

template <class Execute>
void expect_nearest_messages_and_exact_residuals(const Execute& run) {
  for (const Compression format : kMessageFormats) {
    for (const int64_t piece : kPieceSizes) {
      const int ranks = 3;
      const auto test = compress_case(format, ranks, spread_values(ranks * piece, 5, 12),
                                      random_normal(DType::kF32, ranks * piece, 7, 1e-3));
      const Execution execution = run(test);
      const int64_t words = message_words(format, piece);
      for (int64_t rank = 0; rank < ranks; ++rank) {
        const std::vector<double> told = told_by(format, execution.outputs.at("message"), piece, rank * words);
        const std::vector<double> message(execution.outputs.at("message").begin() + rank * words,
                                          execution.outputs.at("message").end());
        for (int64_t i = 0; i < piece; ++i) {
          const auto at = static_cast<size_t>(rank * piece + i);
          const double value = round_to(DType::kF32, test.inputs.at("gradient")[at] + test.inputs.at("residual")[at]);
          const int exponent = exponent_of(format, message, piece, i / kMessageBlock);
          ASSERT_EQ(told[static_cast<size_t>(i)], nearest_told(format, value, exponent)) << test.name << " " << at;
          ASSERT_EQ(told[static_cast<size_t>(i)] + execution.outputs.at("residual")[at], value) << test.name << at;
        }
      }
    }
  }
}

template <class Execute>
void expect_the_same_messages_without_a_residual(const Execute& run) {
  for (const Compression format : kMessageFormats) {
    const std::vector<double> gradient = spread_values(9001, 11, 3);
    const Execution bare = run(compress_case(format, 1, gradient, {}));
    const Execution kept = run(compress_case(format, 1, gradient, std::vector<double>(9001, 0.0)));
    EXPECT_EQ(bare.outputs.at("message"), kept.outputs.at("message"));
    EXPECT_FALSE(bare.outputs.has("residual"));
  }
}

/// A block of tiny and one of huge numbers: 1e-30 is 0 in fp16, and 1e30 infinity.
template <class Execute>
void expect_every_block_to_have_its_range(const Execute& run) {
  std::vector<double> gradient = random_normal(DType::kF32, 2 * kMessageBlock, 3);
  for (int64_t i = 0; i < 2 * kMessageBlock; ++i) {
    auto& value = gradient[static_cast<size_t>(i)];
    value = round_to(DType::kF32, (value < 0 ? value - 1 : value + 1) * (i < kMessageBlock ? 1e-30 : 1e30));
  }
  gradient[5] = 0;
  const auto test = compress_case(Compression::kFP16, 1, gradient, {});
  const Execution execution = run(test);
  const std::vector<double> told = told_by(Compression::kFP16, execution.outputs.at("message"), 2 * kMessageBlock);
  for (size_t i = 0; i < gradient.size(); ++i) {
    ASSERT_LE(std::abs(told[i] - gradient[i]), std::abs(gradient[i]) * 0x1p-11) << i;
  }
  // The largest floats, and the smallest: a block of denormals alone cannot be brought up to 2^14, and loses nothing.
  for (const double value : {double{std::numeric_limits<float>::max()}, 0x1p-149, 0x1p-130, 0x1.23456p-127, 0.0}) {
    const Execution edge = run(compress_case(Compression::kFP16, 1, std::vector<double>(20, value), {}));
    const double found = told_by(Compression::kFP16, edge.outputs.at("message"), 20)[7];
    ASSERT_LE(std::abs(found - value), std::abs(value) * 0x1p-11) << value;
  }
}

template <class Execute>
void expect_inf_and_nan_to_survive_alone(const Execute& run) {
  for (const Compression format : kMessageFormats) {
    std::vector<double> gradient = random_normal(DType::kF32, 300, 3);
    gradient[10] = NAN;
    gradient[20] = INFINITY;
    gradient[30] = -INFINITY;
    const Execution execution = run(compress_case(format, 1, gradient, random_normal(DType::kF32, 300, 4, 1e-3)));
    const std::vector<double> told = told_by(format, execution.outputs.at("message"), 300);
    EXPECT_TRUE(std::isnan(told[10]));
    EXPECT_EQ(told[20], INFINITY);
    EXPECT_EQ(told[30], -INFINITY);
    for (size_t i = 0; i < gradient.size(); ++i) {
      const double kept = execution.outputs.at("residual")[i];
      if (!std::isfinite(gradient[i])) {
        EXPECT_EQ(kept, 0) << i;
        continue;
      }
      EXPECT_NEAR(told[i], gradient[i], 0.01 * std::abs(gradient[i]) + 0.01) << i;
      EXPECT_TRUE(std::isfinite(kept)) << i;
    }
  }
  // Above the largest bf16 a float is rounded to infinity; what is kept must not be minus infinity.
  const Execution large = run(compress_case(Compression::kBF16, 1, {3.4e38}, {0.0}));
  EXPECT_EQ(told_by(Compression::kBF16, large.outputs.at("message"), 1)[0], INFINITY);
  EXPECT_EQ(large.outputs.at("residual")[0], 0);
}

/// A gradient that is the same in every step, a quarter of what the format resolves above 1.
template <class Execute>
void expect_the_mean_to_be_right_with_feedback_alone(const Execute& run) {
  for (const Compression format : kMessageFormats) {
    const double excess = format == Compression::kBF16 ? 0x1p-9 : 0x1p-12;
    std::vector<double> residual(40, 0.0);
    double with_feedback = 0;
    double without = 0;
    constexpr int kSteps = 64;
    for (int step = 0; step < kSteps; ++step) {
      const std::vector<double> gradient(40, 1 + excess);
      const Execution kept = run(compress_case(format, 1, gradient, residual));
      residual = kept.outputs.at("residual");
      with_feedback += told_by(format, kept.outputs.at("message"), 40)[13];
      without += told_by(format, run(compress_case(format, 1, gradient, {})).outputs.at("message"), 40)[13];
    }
    EXPECT_EQ(with_feedback + residual[13], kSteps * (1 + excess));
    EXPECT_LE(std::abs(residual[13]), 2 * excess);
    EXPECT_EQ(without, kSteps);
  }
}

template <class Execute>
void expect_every_word_to_be_read(const Execute& run) {
  for (const Compression format : kMessageFormats) {
    const int64_t words = message_words(format, 65536);
    OpCase<op::SumMessages<Tensor>> test{
        .name = format_text(format),
        .op = {.sum = shape_only(DType::kF32, {65536}), .messages = shape_only(DType::kU16, {words}), .format = format},
        .inputs = {}};
    std::vector<double>& message = test.inputs.tensors["messages"];
    for (int64_t word = 0; word < 65536; ++word) message.push_back(static_cast<double>(word));
    for (int64_t block = 65536; block < words; ++block) {
      message.push_back(static_cast<double>(static_cast<uint16_t>(static_cast<int16_t>(126 - 14 * (block - 65536)))));
    }
    const std::vector<double> expected = told_by(format, message, 65536);
    const Execution execution = run(test);
    for (size_t i = 0; i < expected.size(); ++i) {
      const double found = execution.outputs.at("sum")[i];
      if (std::isnan(expected[i])) {
        EXPECT_TRUE(std::isnan(found)) << i;
      } else {
        ASSERT_EQ(found, round_to(DType::kF32, expected[i])) << format_text(format) << " " << i;
      }
    }
  }
}

template <class Execute>
void expect_messages_to_be_added_in_rank_order(const Execute& run) {
  for (const Compression format : kMessageFormats) {
    for (const int64_t piece : kPieceSizes) {
      const int ranks = 4;
      const int64_t words = message_words(format, piece);
      OpCase<op::SumMessages<Tensor>> test{.name = format_text(format) + " " + std::to_string(piece),
                                           .op = {.sum = shape_only(DType::kF32, {piece}),
                                                  .messages = shape_only(DType::kU16, {ranks * words}),
                                                  .ranks = ranks,
                                                  .format = format},
                                           .inputs = {}};
      std::vector<double>& messages = test.inputs.tensors["messages"];
      messages = random_integers(ranks * words, 9, 0x7000);  // finite in both formats
      for (size_t i = 0; i < messages.size(); i += 2) messages[i] += 0x8000;
      for (int64_t rank = 0; format == Compression::kFP16 && rank < ranks; ++rank) {
        for (int64_t block = piece; block < words; ++block) {
          messages[static_cast<size_t>(rank * words + block)] = static_cast<double>(3 + rank);
        }
      }
      std::vector<float> sums;
      for (int64_t rank = 0; rank < ranks; ++rank) {
        const std::vector<double> told = told_by(format, messages, piece, rank * words);
        sums.resize(told.size());
        for (size_t i = 0; i < told.size(); ++i) {
          sums[i] = rank == 0 ? static_cast<float>(told[i]) : sums[i] + static_cast<float>(told[i]);
        }
      }
      const Execution execution = run(test);
      for (size_t i = 0; i < sums.size(); ++i) {
        ASSERT_EQ(execution.outputs.at("sum")[i], double{sums[i]}) << test.name << " " << i;
      }
    }
  }
}

template <class Execute>
void expect_a_residual_to_go_with_a_skipped_step(const Execute& run) {
  for (const uint32_t skipped : {0u, 1u}) {
    OpCase<op::DropResidual<Tensor>> test{
        .name = "drop", .op = {.residual = shape_only(DType::kF32, {5001}), .state = state_shape()}, .inputs = {}};
    fill_at_random(test, 3);
    test.inputs.state.skipped = skipped;
    const Execution execution = run(test);
    const std::vector<double> nothing(5001, 0.0);
    EXPECT_EQ(execution.outputs.at("residual"), skipped == 1 ? nothing : test.inputs.at("residual"));
  }
}

}  // namespace litespark::test
