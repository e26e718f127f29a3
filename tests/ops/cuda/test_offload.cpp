// SPDX-License-Identifier: Apache-2.0
// Copies to pinned memory and back beside other ops, issued one by one and recorded in a graph.
#include "ops/cuda/cuda_conformance.h"

namespace litespark::test {
namespace {

constexpr int64_t kRows = 4096;
constexpr int64_t kColumns = 1024;

/// Values, their copy on the host, what came back, and an overwritten source.
struct RoundTrip {
  Backend& backend = cuda_backend();
  int64_t bytes = kRows * kColumns * 2;
  std::unique_ptr<DeviceMemory> device = backend.allocate(bytes), back = backend.allocate(bytes),
                                zeros = backend.allocate(bytes), host = backend.allocate_pinned(bytes);
  std::vector<std::byte> values = encode(DType::kBF16, random_normal(DType::kBF16, kRows* kColumns, 5));

  Tensor of(const DeviceMemory& memory) const {
    return {.data = memory.data(), .dtype = DType::kBF16, .shape = {kRows, kColumns}, .device = Device::kCuda};
  }
  void prepare() {
    backend.copy_to_device(device->data(), values.data(), bytes);
    for (const int ticket : {0, 1}) backend.prepare(op::OffloadWait<Tensor>{.device = of(*device), .ticket = ticket});
  }
  /// Out, then the source is overwritten, then back.
  void run() {
    backend.run(op::OffloadStore<Tensor>{.host = of(*host), .device = of(*device), .ticket = 0});
    backend.run(op::OffloadWait<Tensor>{.device = of(*device), .ticket = 0});
    backend.run(op::Convert<Tensor>{.out = of(*device), .x = of(*zeros)});
    backend.run(op::OffloadFetch<Tensor>{.device = of(*back), .host = of(*host), .ticket = 1});
    backend.run(op::OffloadWait<Tensor>{.device = of(*back), .ticket = 1});
    backend.run(op::Convert<Tensor>{.out = of(*device), .x = of(*back)});
  }
  std::vector<std::byte> result() {
    std::vector<std::byte> read(values.size());
    backend.copy_to_host(read.data(), device->data(), bytes);
    return read;
  }
};

TEST(Offload, WhatGoesOutComesBackThoughTheSourceIsOverwritten) {
  RoundTrip trip;
  trip.prepare();
  for (int i = 0; i < 20; ++i) trip.run();
  EXPECT_EQ(trip.result(), trip.values);
}

TEST(Offload, AGraphKeepsBothStreams) {
  RoundTrip trip;
  trip.prepare();
  trip.run();
  const auto graph = trip.backend.capture([&] { trip.run(); });
  ASSERT_NE(graph, nullptr);
  for (int i = 0; i < 20; ++i) graph->launch();
  trip.backend.synchronize();
  EXPECT_EQ(trip.result(), trip.values);
}

}  // namespace
}  // namespace litespark::test
