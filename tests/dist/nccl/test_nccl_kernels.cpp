// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "dist/nccl/nccl_kernels.h"
#include "dist/ordered_reduce.h"

namespace litespark::dist {
namespace {

/// Any bits: NaN, infinities and denormals among them.
std::vector<std::byte> random_bytes(int64_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::byte> bytes(static_cast<size_t>(count));
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random() & 0xff);
  return bytes;
}

double value_of(const std::byte* place, DType dtype) {
  if (dtype == DType::kF64) {
    double value = 0;
    std::memcpy(&value, place, sizeof(value));
    return value;
  }
  if (dtype == DType::kF32) {
    float value = 0;
    std::memcpy(&value, place, sizeof(value));
    return static_cast<double>(value);
  }
  bf16 value;
  std::memcpy(&value, place, sizeof(value));
  return static_cast<double>(to_float(value));
}

void expect_host_bits(int rank, int size, int64_t count, DType dtype, Reduction reduction) {
  const int64_t bytes = count * dtype_bytes(dtype);
  const std::vector<std::byte> all = random_bytes(bytes * size, static_cast<uint64_t>(rank * 100 + size));
  std::vector<const void*> inputs;
  for (int other = 0; other < size; ++other) inputs.push_back(all.data() + other * bytes);
  std::vector<std::byte> expected(static_cast<size_t>(bytes));
  reduce_in_order(expected.data(), inputs, count, dtype, reduction);

  std::byte* device = nullptr;
  ASSERT_EQ(cudaMalloc(reinterpret_cast<void**>(&device), static_cast<size_t>(bytes * size)), cudaSuccess);
  std::byte* own = device + bytes * (size - 1);
  std::byte* other_place = device;
  for (int other = 0; other < size; ++other) {
    std::byte* place = other == rank ? own : other_place;
    if (other != rank) other_place += bytes;
    cudaMemcpy(place, inputs[static_cast<size_t>(other)], static_cast<size_t>(bytes), cudaMemcpyHostToDevice);
  }
  launch_reduce_in_order(own, {.own = own, .others = device, .rank = rank, .size = size, .num_elements = count}, dtype,
                         reduction, nullptr);
  std::vector<std::byte> found(static_cast<size_t>(bytes));
  ASSERT_EQ(cudaMemcpy(found.data(), own, static_cast<size_t>(bytes), cudaMemcpyDeviceToHost), cudaSuccess);
  cudaFree(device);
  for (int64_t i = 0; i < count; ++i) {
    const double a = value_of(found.data() + i * dtype_bytes(dtype), dtype);
    const double b = value_of(expected.data() + i * dtype_bytes(dtype), dtype);
    ASSERT_TRUE(a == b || (std::isnan(a) && std::isnan(b))) << "element " << i << ": " << a << " and " << b;
  }
}

TEST(NcclKernels, ReduceInRankOrderToTheHostsBits) {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF64}) {
    for (const Reduction reduction : {Reduction::kSum, Reduction::kMax}) {
      for (const int size : {1, 2, 5}) {
        for (const int64_t count : {int64_t{1}, int64_t{257}, int64_t{100003}}) {
          for (int rank = 0; rank < size; ++rank) {
            SCOPED_TRACE(std::string(dtype_name(dtype)) + " rank " + std::to_string(rank) + " of " +
                         std::to_string(size));
            expect_host_bits(rank, size, count, dtype, reduction);
          }
        }
      }
    }
  }
}

TEST(NcclKernels, AMarkIsSeenByTheHostInStreamOrder) {
  uint64_t* words = nullptr;
  ASSERT_EQ(cudaHostAlloc(reinterpret_cast<void**>(&words), 2 * sizeof(uint64_t), cudaHostAllocDefault), cudaSuccess);
  words[0] = words[1] = 0;
  launch_mark(words, uint64_t{1} << 40, nullptr);
  launch_mark(words + 1, 7, nullptr);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(words[0], uint64_t{1} << 40);
  EXPECT_EQ(words[1], 7u);
  cudaFreeHost(words);
}

}  // namespace
}  // namespace litespark::dist
