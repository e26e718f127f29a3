// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "core/error.h"
#include "model/self_test.h"
#include "ops/cpu/cpu_backend.h"
#include "support/error_text.h"
#include "support/faulty_backend.h"

namespace litespark {
namespace {

TEST(SelfTest, PassesOnSoundHardware) {
  for (const int threads : {1, 2}) {
    for (const CpuIsa isa : {CpuIsa::kGeneric, CpuIsa::kAmx}) {
      const auto backend = make_cpu_backend({.threads = threads, .max_isa = isa});
      for (const DType compute : {DType::kF32, DType::kBF16}) EXPECT_NO_THROW(require_right_matmul(*backend, compute));
    }
  }
}

TEST(SelfTest, FindsAnySingleWrongBitInTheResult) {  // fault:C4
  test::FaultyBackend backend(make_cpu_backend({}));
  for (const DType compute : {DType::kF32, DType::kBF16}) {
    for (uint64_t seed = 0; seed < 40; ++seed) {
      backend.set_faults({.flip_bit_at = 0, .flip_seed = seed, .counts = [](const std::string& op) {
                            return op == "matmul_forward";
                          }});
      const std::string text = error_text<DeviceError>([&] { require_right_matmul(backend, compute); });
      EXPECT_TRUE(contains(text, "[self-test] a matmul of known result on cpu")) << backend.flipped();
      EXPECT_EQ(backend.planted(), 1);
    }
  }
}

}  // namespace
}  // namespace litespark
