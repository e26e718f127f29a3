// SPDX-License-Identifier: Apache-2.0
// The text form of an algorithm: it needs no GPU.
#include <gtest/gtest.h>

#include <cstring>

#include "core/error.h"
#include "ops/cuda/matmul_plan.h"

namespace litespark::cuda {
namespace {

TEST(MatmulPlan, AnAlgorithmSurvivesItsTextForm) {
  cublasLtMatmulAlgo_t algorithm{};
  auto* bytes = reinterpret_cast<unsigned char*>(&algorithm);
  for (size_t i = 0; i < sizeof(algorithm); ++i) bytes[i] = static_cast<unsigned char>(i * 37 + 5);
  const std::string text = algorithm_text(algorithm);
  EXPECT_EQ(text.size(), 2 * sizeof(algorithm));
  const cublasLtMatmulAlgo_t back = parse_algorithm(text);
  EXPECT_EQ(std::memcmp(&algorithm, &back, sizeof(algorithm)), 0);
}

TEST(MatmulPlan, TextOfAnotherLengthOrWithOtherDigitsIsRefused) {
  EXPECT_THROW(parse_algorithm(""), DataError);
  EXPECT_THROW(parse_algorithm(std::string(2 * sizeof(cublasLtMatmulAlgo_t) - 1, '0')), DataError);
  EXPECT_THROW(parse_algorithm(std::string(2 * sizeof(cublasLtMatmulAlgo_t), 'G')), DataError);
  EXPECT_THROW(parse_algorithm(std::string(2 * sizeof(cublasLtMatmulAlgo_t), 'A')), DataError);
}

}  // namespace
}  // namespace litespark::cuda
