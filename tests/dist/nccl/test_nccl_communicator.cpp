// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <chrono>
#include <vector>

#include "dist/nccl/nccl_communicator.h"
#include "gpu_ranks.h"
#include "support/error_text.h"

namespace litespark {
namespace {

using test::GpuRank;
using test::run_gpu_ranks;

Tensor floats_on(const GpuRank& rank, const std::vector<float>& values) {
  const auto bytes = static_cast<int64_t>(values.size() * sizeof(float));
  const Tensor tensor{.data = rank.memory.allocate(bytes),
                      .dtype = DType::kF32,
                      .shape = {static_cast<int64_t>(values.size())},
                      .device = Device::kCuda};
  rank.memory.write(tensor.data, values.data(), bytes);
  return tensor;
}

std::vector<float> read(const GpuRank& rank, const Tensor& tensor) {
  std::vector<float> values(static_cast<size_t>(tensor.num_elements()));
  rank.memory.read(values.data(), tensor.data, tensor.bytes());
  return values;
}

void expect_conformance(int size, bool is_ordered, bool is_blocking = false) {
  for (const test::ConformanceCase& item : test::conformance_cases()) {
    SCOPED_TRACE(item.name);
    // A small inbox, so that sums in rank order come in many stretches.
    EXPECT_NO_THROW(run_gpu_ranks(
        size, {.timeout_seconds = 60, .is_ordered = is_ordered, .is_blocking = is_blocking, .inbox_bytes = 1 << 16},
        [&](const GpuRank& rank) { item.run(rank.communicator, rank.memory); }));
  }
}

/// A graph that ends with the test's body, however that ends: NCCL waits for graphs that hold its calls.
struct Graph {
  cudaStream_t stream;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;

  explicit Graph(cudaStream_t recorded) : stream(recorded) {}
  ~Graph() {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    cudaStreamIsCapturing(stream, &status);
    if (status != cudaStreamCaptureStatusNone) cudaStreamEndCapture(stream, &graph);
    if (executable != nullptr) cudaGraphExecDestroy(executable);
    if (graph != nullptr) cudaGraphDestroy(graph);
  }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  void begin() const { ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess); }
  void end() {
    ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
    ASSERT_EQ(cudaGraphInstantiate(&executable, graph, 0), cudaSuccess);
    ASSERT_EQ(cudaGraphUpload(executable, stream), cudaSuccess);
    ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  }
};

/// Records two calls into a graph and replays it on values that change in between.
void expect_replays(int size, bool is_ordered) {
  run_gpu_ranks(size, {.timeout_seconds = 20, .is_ordered = is_ordered}, [&](const GpuRank& rank) {
    Communicator& communicator = rank.communicator;
    const int me = communicator.rank();
    const Tensor sum = floats_on(rank, {1, 2, 3});
    const Tensor most = floats_on(rank, {0});
    communicator.wait(communicator.all_reduce(sum, Reduction::kSum));
    communicator.barrier();
    Graph graph(rank.stream);
    ASSERT_NO_FATAL_FAILURE(graph.begin());
    const CommTicket first = communicator.all_reduce(sum, Reduction::kSum);
    const CommTicket second = communicator.all_reduce(most, Reduction::kMax);
    communicator.wait(first);
    communicator.wait(second);
    ASSERT_NO_FATAL_FAILURE(graph.end());
    rank.meet();
    for (int round = 0; round < 5; ++round) {
      const std::vector<float> own = {static_cast<float>(me + round), 1.0f, static_cast<float>(round)};
      const auto number = static_cast<float>(10 * round + me);
      rank.memory.write(sum.data, own.data(), sum.bytes());
      rank.memory.write(most.data, &number, most.bytes());
      ASSERT_EQ(cudaGraphLaunch(graph.executable, rank.stream), cudaSuccess);
      const auto n = static_cast<float>(size);
      EXPECT_EQ(read(rank, sum), (std::vector<float>{n * (n - 1) / 2 + n * static_cast<float>(round), n,
                                                     n * static_cast<float>(round)}));
      EXPECT_EQ(read(rank, most), (std::vector<float>{static_cast<float>(10 * round + size - 1)}));
    }
    communicator.barrier();
    rank.meet();
  });
}

// With one GPU.

TEST(NcclCommunicator, OneRankAloneDoesWhatEveryCallSays) {
  expect_conformance(1, false);
}

TEST(NcclCommunicator, OneRankAloneDoesSoWithBlockingLaunches) {
  expect_conformance(1, false, true);
}

TEST(NcclCommunicator, OneRankAloneReplaysItsCallsFromAGraph) {
  expect_replays(1, false);
}

TEST(NcclCommunicator, ABlockingCommunicatorRefusesToBeRecorded) {
  run_gpu_ranks(1, {.timeout_seconds = 60, .is_blocking = true}, [&](const GpuRank& rank) {
    const Tensor data = floats_on(rank, {5});
    Graph graph(rank.stream);
    ASSERT_NO_FATAL_FAILURE(graph.begin());
    EXPECT_THROW(rank.communicator.all_reduce(data, Reduction::kSum), InternalError);
  });
}

TEST(NcclCommunicator, CallsBeginWhenTheOpsBeforeThemAreDone) {
  run_gpu_ranks(1, {.timeout_seconds = 60}, [&](const GpuRank& rank) {
    const std::vector<float> zeros(1 << 24, 0.0f);
    const Tensor source = floats_on(rank, zeros);
    const Tensor copy = floats_on(rank, zeros);
    for (int round = 1; round <= 20; ++round) {
      // Long enough that a call which did not wait would read the round before.
      ASSERT_EQ(cudaMemsetAsync(source.data, round, static_cast<size_t>(source.bytes()), rank.stream), cudaSuccess);
      rank.communicator.wait(rank.communicator.all_to_all(copy, source));
      uint8_t last = 0;
      rank.memory.read(&last, static_cast<std::byte*>(copy.data) + copy.bytes() - 1, 1);
      ASSERT_EQ(last, round);
    }
  });
}

TEST(NcclCommunicator, ManyMoreCallsThanItWatchesAtOncePassThrough) {
  run_gpu_ranks(1, {.timeout_seconds = 60}, [&](const GpuRank& rank) {
    const Tensor data = floats_on(rank, {5});
    for (int call = 0; call < 3000; ++call) rank.communicator.all_reduce(data, Reduction::kSum);
    rank.communicator.barrier();
    EXPECT_EQ(read(rank, data), std::vector<float>{5});
  });
}

TEST(NcclCommunicator, AnAbortedCommunicatorRefusesEveryLaterCall) {
  run_gpu_ranks(1, {.timeout_seconds = 60}, [&](const GpuRank& rank) {
    const Tensor data = floats_on(rank, {5});
    rank.communicator.set_step(3);
    rank.communicator.abort("the test wants it");
    EXPECT_EQ(error_text<CommError>([&] { rank.communicator.all_reduce(data, Reduction::kSum); }),
              "[nccl rank 0 of 1] aborted: the test wants it");
    EXPECT_THROW(rank.communicator.barrier(), CommError);
    EXPECT_THROW(rank.communicator.check_alive(), CommError);
  });
}

// fault:B16
TEST(NcclCommunicator, ARankThatNobodyJoinsGivesUpAtTheDeadline) {
  const auto begin = std::chrono::steady_clock::now();
  for (const bool is_blocking : {false, true}) {
    const NcclOptions options{
        .id = make_nccl_id(), .rank = 0, .size = 2, .timeout_seconds = 2, .is_blocking = is_blocking};
    EXPECT_TRUE(contains(error_text<CommError>([&] { make_nccl_communicator(options); }),
                         "not all ranks came before the deadline"));
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(60));
}

TEST(NcclCommunicator, ABarrierIsRefusedInAGraph) {
  run_gpu_ranks(1, {.timeout_seconds = 60}, [&](const GpuRank& rank) {
    Graph graph(rank.stream);
    ASSERT_NO_FATAL_FAILURE(graph.begin());
    EXPECT_THROW(rank.communicator.barrier(), InternalError);
  });
}

// With several.

class ManyGpus : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    if (test::num_gpus() < GetParam()) GTEST_SKIP() << "needs " << GetParam() << " GPUs";
  }
};

TEST_P(ManyGpus, DoWhatEveryCallSays) {
  expect_conformance(GetParam(), false);
}

TEST_P(ManyGpus, DoWhatEveryCallSaysWithSumsInRankOrder) {
  expect_conformance(GetParam(), true);
}

TEST_P(ManyGpus, DoWhatEveryCallSaysWithBlockingLaunches) {
  expect_conformance(GetParam(), false, true);
}

TEST_P(ManyGpus, ReplayTheirCallsFromAGraph) {
  expect_replays(GetParam(), false);
}

TEST_P(ManyGpus, ReplayTheirCallsWithSumsInRankOrder) {
  expect_replays(GetParam(), true);
}

// fault:B16
TEST_P(ManyGpus, EndEveryFaultInAnError) {
  for (const test::FaultCase& item : test::fault_cases()) {
    if (item.needs_labels) continue;
    for (const bool is_blocking : {false, true}) {
      SCOPED_TRACE(item.name + (is_blocking ? ", blocking" : ""));
      EXPECT_NO_THROW(run_gpu_ranks(GetParam(),
                                    {.timeout_seconds = test::kFaultTimeoutSeconds, .is_blocking = is_blocking},
                                    [&](const GpuRank& rank) { item.run(rank.communicator, rank.memory); }));
    }
  }
}

TEST_P(ManyGpus, FindAtABarrierThatARankMadeAnotherCall) {
  run_gpu_ranks(GetParam(), {.timeout_seconds = 20}, [&](const GpuRank& rank) {
    const bool is_odd = rank.communicator.rank() == rank.communicator.size() - 1;
    // The same bytes under another name: NCCL itself sees no difference.
    Tensor data = floats_on(rank, {1, 2, 3, 4});
    if (is_odd) data.shape = {2, 2};
    const std::string text = error_text<CommError>([&] {
      rank.communicator.wait(rank.communicator.broadcast(data, 0));
      rank.communicator.barrier();
    });
    EXPECT_TRUE(contains(text, "did not make the same calls"));
    const int named = is_odd ? 0 : GetParam() - 1;
    EXPECT_TRUE(contains(text, "rank " + std::to_string(named) + " did not"));
  });
}

TEST_P(ManyGpus, NoticeALateRankInsideAGraph) {
  run_gpu_ranks(GetParam(), {.timeout_seconds = test::kFaultTimeoutSeconds}, [&](const GpuRank& rank) {
    Communicator& communicator = rank.communicator;
    const Tensor data = floats_on(rank, {1});
    communicator.wait(communicator.all_reduce(data, Reduction::kSum));
    communicator.barrier();
    Graph graph(rank.stream);
    ASSERT_NO_FATAL_FAILURE(graph.begin());
    communicator.wait(communicator.all_reduce(data, Reduction::kSum));
    ASSERT_NO_FATAL_FAILURE(graph.end());
    rank.meet();
    if (communicator.rank() != communicator.size() - 1) {
      ASSERT_EQ(cudaGraphLaunch(graph.executable, rank.stream), cudaSuccess);
      cudaStreamSynchronize(rank.stream);  // ends because the watching thread aborts
      EXPECT_TRUE(contains(error_text<CommError>([&] { communicator.barrier(); }), "in a CUDA graph"));
    }
    rank.meet();
  });
}

INSTANTIATE_TEST_SUITE_P(Sizes, ManyGpus, testing::Values(2, 3, 4), testing::PrintToStringParamName());

}  // namespace
}  // namespace litespark
