// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "dist/nccl/nccl_handle.h"
#include "support/error_text.h"

namespace litespark::dist {
namespace {

// fault:B16
TEST(NcclHandle, AbortsACallThatIsNotDoneByItsDeadlineAndSaysWhich) {
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  NcclHandle handle({.id = make_nccl_id(), .timeout_seconds = 1}, {.name = "nccl", .device = Device::kCuda});
  cudaEvent_t ready = nullptr;
  cudaEvent_t done = nullptr;
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaEventCreateWithFlags(&ready, cudaEventDisableTiming), cudaSuccess);
  ASSERT_EQ(cudaEventCreateWithFlags(&done, cudaEventDisableTiming), cudaSuccess);
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  // A call that hangs: the stream waits for a word that the test sets when all is over.
  uint64_t* gate = nullptr;
  ASSERT_EQ(cudaHostAlloc(reinterpret_cast<void**>(&gate), sizeof(uint64_t), cudaHostAllocDefault), cudaSuccess);
  *gate = 0;
  ASSERT_EQ(cudaEventRecord(ready, stream), cudaSuccess);
  const auto wait_for_gate = [](void* word) {
    while (*static_cast<volatile uint64_t*>(word) == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  ASSERT_EQ(cudaLaunchHostFunc(stream, wait_for_gate, gate), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(done, stream), cudaSuccess);
  handle.watch({.label = {.kind = CallKind::kBarrier, .number = 9, .step = 4}, .ready = ready, .done = done});
  const std::string text = error_text<CommError>([&] { handle.wait_on_host(done); });
  EXPECT_TRUE(contains(text, "barrier, call 9, step 4: not done 1 s after it could begin"));
  *gate = 1;
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  cudaFreeHost(gate);
}

}  // namespace
}  // namespace litespark::dist
