// SPDX-License-Identifier: Apache-2.0
// Checksums: equal for equal bits, another number for any changed bit.
#include <bit>
#include <cstring>
#include <numeric>

#include "ops/cpu_conformance.h"

namespace litespark::test {
namespace {

/// The definition, on a backend with `threads` threads.
uint64_t checksum(const std::vector<float>& values, int threads = 1) {
  const auto backend = make_cpu_backend({.threads = threads});
  int64_t out = -1;
  std::vector<float> copy = values;
  const op::Checksum<Tensor> op{
      .out = {.data = &out, .dtype = DType::kI64, .shape = {1}},
      .x = {.data = copy.data(), .dtype = DType::kF32, .shape = {static_cast<int64_t>(values.size())}}};
  validate(op);
  backend->run(op);
  return static_cast<uint64_t>(out);
}

std::vector<float> some_values(size_t size) {
  std::vector<float> values(size);
  std::iota(values.begin(), values.end(), -3.25f);
  return values;
}

TEST(Checksum, IsTheSumOfItsTermsForAnySizeAndThreadCount) {
  for (const size_t size : {size_t{0}, size_t{1}, size_t{17}, size_t{16384}, size_t{50001}}) {
    const std::vector<float> values = some_values(size);
    uint64_t expected = 0;
    for (size_t i = 0; i < size; ++i)
      expected += op::checksum_term(static_cast<int64_t>(i), std::bit_cast<uint32_t>(values[i]));
    for (const int threads : {1, 2, 4}) EXPECT_EQ(checksum(values, threads), expected) << size;
  }
}

TEST(Checksum, EverySingleFlippedBitChangesIt) {  // fault:C4
  const std::vector<float> values = some_values(100);
  const uint64_t before = checksum(values);
  for (size_t i = 0; i < values.size(); ++i) {
    for (int bit = 0; bit < 32; ++bit) {
      std::vector<float> flipped = values;
      flipped[i] = std::bit_cast<float>(std::bit_cast<uint32_t>(flipped[i]) ^ (uint32_t{1} << bit));
      ASSERT_NE(checksum(flipped), before) << i << ", bit " << bit;
    }
  }
}

TEST(Checksum, TakesBf16TensorsByTheirBits) {
  std::vector<bf16> values = {to_bf16(1.0f), to_bf16(-2.5f), to_bf16(0.0f)};
  uint64_t expected = 0;
  for (size_t i = 0; i < values.size(); ++i) expected += op::checksum_term(static_cast<int64_t>(i), values[i].bits);
  int64_t out = 0;
  const op::Checksum<Tensor> op{.out = {.data = &out, .dtype = DType::kI64, .shape = {1}},
                                .x = {.data = values.data(), .dtype = DType::kBF16, .shape = {3}}};
  validate(op);
  make_cpu_backend({.threads = 1})->run(op);
  EXPECT_EQ(static_cast<uint64_t>(out), expected);
}

TEST(Checksum, TakesElementsOfOneTwoAndFourBytesByTheirBits) {
  const std::vector<uint8_t> bytes = {1, 2, 3, 250, 5, 6, 7, 8};
  for (const DType dtype : {DType::kU8, DType::kU16, DType::kF32, DType::kE4M3, DType::kE5M2}) {
    const int64_t width = dtype_bytes(dtype);
    uint64_t expected = 0;
    for (int64_t i = 0; i < 8 / width; ++i) {
      uint32_t bits = 0;
      std::memcpy(&bits, bytes.data() + i * width, static_cast<size_t>(width));
      expected += op::checksum_term(i, bits);
    }
    std::vector<uint8_t> content = bytes;
    int64_t out = 0;
    const op::Checksum<Tensor> op{.out = {.data = &out, .dtype = DType::kI64, .shape = {1}},
                                  .x = {.data = content.data(), .dtype = dtype, .shape = {8 / width}}};
    validate(op);
    make_cpu_backend({.threads = 1})->run(op);
    EXPECT_EQ(static_cast<uint64_t>(out), expected) << dtype_name(dtype);
  }
}

TEST(Checksum, TellsSwappedElementsAndTheSignOfZeroApart) {
  EXPECT_NE(checksum({1.0f, 2.0f}), checksum({2.0f, 1.0f}));
  EXPECT_NE(checksum({0.0f}), checksum({-0.0f}));
  EXPECT_NE(checksum({0.0f}), checksum({0.0f, 0.0f}));
}

}  // namespace
}  // namespace litespark::test
