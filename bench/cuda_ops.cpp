// SPDX-License-Identifier: Apache-2.0
// bench_cuda_ops [JSON_FILE [NAME_PART]]: GB/s of every streaming op, and its share of the copy rate of the same run.
// Ops that have a second kernel are timed with it too.
#include <cstdio>
#include <exception>
#include <fstream>
#include <functional>
#include <string>

#include "cuda_bench.h"

namespace litespark::bench {
namespace {

/// Names and shapes are our own letters, digits and spaces: nothing to escape.
void write_json(const std::string& path, const std::string& device, const std::vector<Timing>& timings) {
  std::ofstream file(path);
  file << "{\"device\": \"" << device << "\", \"rows\": [";
  for (size_t i = 0; i < timings.size(); ++i) {
    const Timing& t = timings[i];
    file << (i == 0 ? "\n" : ",\n") << "{\"op\": \"" << t.name << "\", \"shape\": \"" << t.shape
         << "\", \"bytes\": " << t.bytes << ", \"microseconds\": " << t.microseconds
         << ", \"gigabytes_per_second\": " << t.gigabytes_per_second << "}";
  }
  file << "\n]}\n";
}

void time_second_kernels(const std::string& name_part, const std::function<void(const Timing&)>& add) {
  cuda::CudaBackend backend({.kernels = {.loss_through_ring = false}});
  CudaBench bench(backend);
  for (BenchCase bench_case : streaming_cases()) {
    if (bench_case.name != "cross_entropy" || bench_case.name.find(name_part) == std::string::npos) continue;
    bench_case.shape += " a block a row";
    add(bench.time(bench_case));
  }
}

void run(const std::string& json_path, const std::string& name_part) {
  cuda::CudaBackend backend({});
  CudaBench bench(backend);
  std::printf("%s\n%-20s %-34s %10s %10s %8s %6s\n", backend.name().c_str(), "op", "shape", "MB", "us", "GB/s", "copy");
  std::vector<Timing> timings;
  for (int i = 0; i < 3; ++i) timings = {bench.time_copy()};
  const double copy_rate = timings[0].gigabytes_per_second;
  const auto print = [&](const Timing& t) {
    std::printf("%-20s %-34s %10.2f %10.1f %8.0f %5.0f%%\n", t.name.c_str(), t.shape.c_str(),
                static_cast<double>(t.bytes) * 1e-6, t.microseconds, t.gigabytes_per_second,
                100 * t.gigabytes_per_second / copy_rate);
    std::fflush(stdout);
  };
  print(timings[0]);
  for (const BenchCase& bench_case : streaming_cases()) {
    if (bench_case.name.find(name_part) == std::string::npos) continue;
    timings.push_back(bench.time(bench_case));
    print(timings.back());
  }
  time_second_kernels(name_part, [&](const Timing& timing) {
    timings.push_back(timing);
    print(timing);
  });
  timings.push_back(bench.time_copy());
  print(timings.back());
  if (!json_path.empty()) write_json(json_path, backend.name(), timings);
}

}  // namespace
}  // namespace litespark::bench

int main(int argc, char** argv) {
  try {
    litespark::bench::run(argc > 1 ? argv[1] : "", argc > 2 ? argv[2] : "");
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
