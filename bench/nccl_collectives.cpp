// SPDX-License-Identifier: Apache-2.0
// Latency and bus bandwidth of collectives by size: through our communicator, as training does it ("ours") and as calls
// that may be recorded are launched ("polling"), and through a plain loop of NCCL calls in the same run, rounds of all
// in turn. Calls in a row are waited for together at the end. Small calls take as long as the host needs to launch
// them; "queued" ones are all launched before the first may begin, as in a step, whose host runs ahead. One thread a
// GPU.
//   bench_nccl [RANKS] [JSON_FILE]        all GPUs by default
// Bus bandwidth = bytes / seconds x f, bytes of the whole tensor; f = 2(n-1)/n for all-reduce, (n-1)/n for the others.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fstream>
#include <iostream>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "dist/nccl/nccl_communicator.h"
#include "dist/nccl/nccl_library.h"

namespace litespark {
namespace {

using dist::check;

constexpr int kRounds = 7;
constexpr int64_t kLargest = int64_t{1} << 30;

enum class Op { kAllReduce, kReduceScatter, kAllGather };
constexpr std::array kOps = {Op::kAllReduce, Op::kReduceScatter, Op::kAllGather};

const char* name_of(Op op) {
  return op == Op::kAllReduce ? "all_reduce" : op == Op::kReduceScatter ? "reduce_scatter" : "all_gather";
}

double bus_factor(Op op, int ranks) {
  const double others = static_cast<double>(ranks - 1) / ranks;
  return op == Op::kAllReduce ? 2 * others : others;
}

enum class Column { kOurs, kPolling, kPlain, kOursQueued, kPlainQueued };
constexpr size_t kNumColumns = 5;
constexpr std::array kColumnNames = {"ours", "polling", "plain", "ours_queued", "plain_queued"};

struct Row {
  Op op = Op::kAllReduce;
  DType dtype = DType::kF32;
  int64_t bytes = 0;
  std::array<double, kNumColumns> seconds{};  ///< of a call

  double of(Column column) const { return seconds[static_cast<size_t>(column)]; }
};

/// One rank's way of making a call, on `stream`.
class Caller {
 public:
  virtual ~Caller() = default;
  virtual void call(Op op, const Tensor& data, const Tensor& shard) = 0;
  virtual void wait() {}
};

class OurCaller final : public Caller {
 public:
  explicit OurCaller(const NcclOptions& options) : communicator_(make_nccl_communicator(options)) {}
  void call(Op op, const Tensor& data, const Tensor& shard) override {
    Communicator& communicator = *communicator_;
    last_ = op == Op::kAllReduce       ? communicator.all_reduce(data, Reduction::kSum)
            : op == Op::kReduceScatter ? communicator.reduce_scatter(shard, data, Reduction::kSum)
                                       : communicator.all_gather(data, shard);
  }
  void wait() override { communicator_->wait(last_); }

 private:
  std::unique_ptr<Communicator> communicator_;
  CommTicket last_;
};

class PlainCaller final : public Caller {
 public:
  explicit PlainCaller(const NcclOptions& options) : stream_(static_cast<cudaStream_t>(options.compute_stream)) {
    ncclUniqueId id;
    std::memcpy(&id, options.id.data(), sizeof(id));
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    must(library_.comm_init_rank_config(&comm_, options.size, id, options.rank, &config));
  }
  ~PlainCaller() override { library_.comm_destroy(comm_); }
  void call(Op op, const Tensor& data, const Tensor& shard) override {
    const ncclDataType_t type = data.dtype == DType::kBF16 ? ncclBfloat16 : ncclFloat32;
    const auto whole = static_cast<size_t>(data.num_elements());
    const auto piece = static_cast<size_t>(shard.num_elements());
    if (op == Op::kAllReduce) must(library_.all_reduce(data.data, data.data, whole, type, ncclSum, comm_, stream_));
    if (op == Op::kReduceScatter)
      must(library_.reduce_scatter(data.data, shard.data, piece, type, ncclSum, comm_, stream_));
    if (op == Op::kAllGather) must(library_.all_gather(shard.data, data.data, piece, type, comm_, stream_));
  }

 private:
  void must(ncclResult_t status) const {
    if (status != ncclSuccess) throw CommError("plain NCCL", library_.get_error_string(status));
  }
  const dist::NcclLibrary& library_ = dist::nccl_library();
  cudaStream_t stream_;
  ncclComm_t comm_ = nullptr;
};

/// What the threads share.
struct Shared {
  explicit Shared(int ranks) : ranks_here(ranks), slowest(static_cast<size_t>(ranks)) {}
  std::barrier<> ranks_here;
  std::vector<double> slowest;
  std::vector<Row> rows;
};

class Rank {
 public:
  Rank(NcclOptions options, const std::array<NcclId, 3>& ids, Shared& shared) : options_(options), shared_(shared) {
    check(cudaSetDevice(options.device), "cudaSetDevice");
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
    check(cudaEventCreate(&begin_), "cudaEventCreate");
    check(cudaEventCreate(&end_), "cudaEventCreate");
    check(cudaMalloc(&memory_, static_cast<size_t>(kLargest)), "cudaMalloc");
    check(cudaMemset(memory_, 0, static_cast<size_t>(kLargest)), "cudaMemset");
    options_.compute_stream = stream_;
    polling_ = std::make_unique<OurCaller>(options_);
    options_.id = ids[1];
    options_.is_blocking = true;
    ours_ = std::make_unique<OurCaller>(options_);
    options_.id = ids[2];
    plain_ = std::make_unique<PlainCaller>(options_);
  }

  void measure_all() {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      for (const Op op : kOps) {
        for (int64_t bytes = 1024; bytes <= kLargest; bytes *= 4) measure({.op = op, .dtype = dtype, .bytes = bytes});
      }
    }
  }

 private:
  void measure(Row row) {
    const int64_t count = row.bytes / dtype_bytes(row.dtype) / options_.size * options_.size;
    const Tensor data{.data = memory_, .dtype = row.dtype, .shape = {count}, .device = Device::kCuda};
    Tensor shard = data;  // in place, as training does it
    shard.shape = {count / options_.size};
    shard.data = static_cast<std::byte*>(memory_) + shard.bytes() * options_.rank;
    const int calls = row.bytes <= (1 << 20) ? 50 : row.bytes <= (64 << 20) ? 20 : 5;
    const std::array<Caller*, kNumColumns> callers = {ours_.get(), polling_.get(), plain_.get(), ours_.get(),
                                                      plain_.get()};
    std::array<std::vector<double>, kNumColumns> seconds;
    for (int round = -2; round < kRounds; ++round) {  // two to warm up
      for (size_t column = 0; column < kNumColumns; ++column) {
        const bool is_queued = static_cast<Column>(column) >= Column::kOursQueued;
        const double one = time(*callers[column], row.op, data, shard, calls, is_queued);
        if (round >= 0) seconds[column].push_back(one);
      }
    }
    for (size_t column = 0; column < kNumColumns; ++column) row.seconds[column] = median(seconds[column]);
    if (options_.rank == 0) shared_.rows.push_back(row);
  }

  /// Seconds a call, of the slowest rank.
  double time(Caller& caller, Op op, const Tensor& data, const Tensor& shard, int calls, bool is_queued) {
    check(cudaStreamSynchronize(stream_), "synchronize");
    is_open_ = !is_queued;
    shared_.ranks_here.arrive_and_wait();
    if (is_queued) check(cudaLaunchHostFunc(stream_, wait_until_open, &is_open_), "cudaLaunchHostFunc");
    check(cudaEventRecord(begin_, stream_), "cudaEventRecord");
    for (int call = 0; call < calls; ++call) caller.call(op, data, shard);
    caller.wait();
    check(cudaEventRecord(end_, stream_), "cudaEventRecord");
    is_open_ = true;
    check(cudaStreamSynchronize(stream_), "synchronize");
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, begin_, end_), "cudaEventElapsedTime");
    shared_.slowest[static_cast<size_t>(options_.rank)] = static_cast<double>(milliseconds) / 1e3 / calls;
    shared_.ranks_here.arrive_and_wait();
    return *std::max_element(shared_.slowest.begin(), shared_.slowest.end());
  }

  /// Holds the stream until everything behind it was launched.
  static void wait_until_open(void* is_open) {
    while (!static_cast<std::atomic<bool>*>(is_open)->load()) std::this_thread::yield();
  }

  static double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
  }

  NcclOptions options_;
  Shared& shared_;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t begin_ = nullptr;
  cudaEvent_t end_ = nullptr;
  void* memory_ = nullptr;
  std::atomic<bool> is_open_ = true;
  std::unique_ptr<Caller> ours_;
  std::unique_ptr<Caller> polling_;
  std::unique_ptr<Caller> plain_;
};

std::string device_name() {
  cudaDeviceProp properties{};
  return cudaGetDeviceProperties(&properties, 0) == cudaSuccess ? properties.name : "unknown";
}

void print_table(const std::vector<Row>& rows, int ranks) {
  std::printf("%d x %s, NCCL %s; medians of %d rounds of all in turn, slowest rank; us and GB/s of bus bandwidth\n",
              ranks, device_name().c_str(), nccl_version_text().c_str(), kRounds);
  std::printf("%-15s %-5s %11s | %9s %7s | %9s | %9s %7s | %9s %9s | %9s %9s\n", "op", "dtype", "bytes", "ours", "",
              "polling", "plain", "", "ours q.", "plain q.", "ours/pl.", "queued");
  for (const Row& row : rows) {
    const double scale = static_cast<double>(row.bytes) * bus_factor(row.op, ranks) / 1e9;
    const auto micros = [&](Column column) { return row.of(column) * 1e6; };
    std::printf("%-15s %-5s %11lld | %9.1f %7.1f | %9.1f | %9.1f %7.1f | %9.1f %9.1f | %9.3f %9.3f\n", name_of(row.op),
                std::string(dtype_name(row.dtype)).c_str(), static_cast<long long>(row.bytes), micros(Column::kOurs),
                scale / row.of(Column::kOurs), micros(Column::kPolling), micros(Column::kPlain),
                scale / row.of(Column::kPlain), micros(Column::kOursQueued), micros(Column::kPlainQueued),
                row.of(Column::kOurs) / row.of(Column::kPlain),
                row.of(Column::kOursQueued) / row.of(Column::kPlainQueued));
  }
}

void write_json(const std::string& path, const std::vector<Row>& rows, int ranks) {
  std::ofstream out(path);
  out << "{\"device\": \"" << device_name() << "\", \"ranks\": " << ranks << ", \"nccl\": \"" << nccl_version_text()
      << "\", \"rounds\": " << kRounds << ", \"rows\": [";
  for (size_t i = 0; i < rows.size(); ++i) {
    const Row& row = rows[i];
    const double scale = static_cast<double>(row.bytes) * bus_factor(row.op, ranks) / 1e9;
    out << (i > 0 ? ",\n  " : "\n  ") << "{\"op\": \"" << name_of(row.op) << "\", \"dtype\": \""
        << dtype_name(row.dtype) << "\", \"bytes\": " << row.bytes;
    for (size_t column = 0; column < kNumColumns; ++column)
      out << ", \"" << kColumnNames[column] << "_us\": " << row.seconds[column] * 1e6;
    out << ", \"ours_bus_gb_s\": " << scale / row.of(Column::kOurs)
        << ", \"plain_bus_gb_s\": " << scale / row.of(Column::kPlain) << "}";
  }
  out << "\n]}\n";
}

int run(int argc, char** argv) {
  int ranks = 0;
  check(cudaGetDeviceCount(&ranks), "cudaGetDeviceCount");
  if (argc > 1) ranks = std::min(ranks, std::atoi(argv[1]));
  const std::array<NcclId, 3> ids = {make_nccl_id(), make_nccl_id(), make_nccl_id()};
  Shared shared(ranks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        Rank({.id = ids[0], .rank = rank, .size = ranks, .device = rank, .timeout_seconds = 60}, ids, shared)
            .measure_all();
      } catch (const std::exception& error) {
        // The other threads would wait for this one for ever.
        std::cerr << "rank " << rank << ": " << error.what() << std::endl;
        std::_Exit(1);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  print_table(shared.rows, ranks);
  if (argc > 2) write_json(argv[2], shared.rows, ranks);
  return 0;
}

}  // namespace
}  // namespace litespark

int main(int argc, char** argv) {
  try {
    return litespark::run(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
