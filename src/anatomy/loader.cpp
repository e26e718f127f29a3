// SPDX-License-Identifier: Apache-2.0
#include "anatomy/loader.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>

#include "anatomy/compressed_source.h"
#include "anatomy/embedding.h"
#include "data/shard_source.h"
#include "data/shard_writer.h"
#include "io/file.h"
#include "meter/energy.h"
#include "model/probe_matmul.h"

namespace litespark::anatomy {
namespace {

constexpr int64_t kVocab = 32000;

/// Asks the system to forget what it keeps of a file in memory, so that the next read comes from the disk.
void forget_cached(const std::filesystem::path& path) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return;
  (void)posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED);
  (void)close(descriptor);
}

/// A device that is busy for a while with products.
class BusyDevice {
 public:
  BusyDevice(Backend& backend, DType compute, double seconds)
      : backend_(backend),
        product_(backend, compute, {.rows = 256, .in_features = 512, .out_features = 512}),
        seconds_(seconds) {}
  void compute() {
    const double start = monotonic_seconds();
    do {
      product_.run();
      backend_.synchronize();
    } while (monotonic_seconds() - start < seconds_);
  }

 private:
  Backend& backend_;
  ProbeMatmul product_;
  double seconds_;
};

struct NamedSource {
  std::string name;
  std::unique_ptr<BatchSource> source;
};

std::unique_ptr<BatchSource> make_plain_source(const std::filesystem::path& folder, const BatchShape& shape,
                                               const std::vector<int32_t>& tokens) {
  ShardWriter writer(folder, {.tokenizer_hash = "none", .vocab_size = kVocab});
  const auto length = static_cast<size_t>(shape.max_length) + 1;
  for (size_t first = 0; first + length <= tokens.size(); first += length) {
    writer.add(std::span(tokens).subspan(first, length), static_cast<int64_t>(length));
  }
  (void)writer.finish();
  return std::make_unique<ShardSource>(ShardSet::open(folder),
                                       ShardSource::Options{.shape = shape, .mode = PackingMode::kStream});
}

/// Bytes a second of filling micro-batches in the source's order, and of reading the same file from front to back, both
/// from the disk as far as the system forgets.
struct ReadRates {
  double batches = 0;
  double file = 0;
};

ReadRates read_rates(const BatchSource& source, const BatchShape& shape, const std::filesystem::path& tokens_file,
                     int64_t num_batches) {
  const auto file_bytes = static_cast<double>(std::filesystem::file_size(tokens_file));
  forget_cached(tokens_file);
  double start = monotonic_seconds();
  (void)hash_file(tokens_file);
  const double whole = monotonic_seconds() - start;
  forget_cached(tokens_file);
  Batch batch;
  start = monotonic_seconds();
  for (int64_t index = 0; index < num_batches; ++index) {
    batch.reset(shape);
    source.fill(static_cast<uint64_t>(index), batch);
  }
  const double filled = monotonic_seconds() - start;
  return {.batches = 2.0 * static_cast<double>(num_batches * shape.num_tokens) / filled, .file = file_bytes / whole};
}

struct Row {
  std::string source;
  int64_t workers = 0;
  LoaderStall stall;
};

Table stall_table(const std::vector<Row>& rows, const BatchShape& shape) {
  Table table{.key = "workers",
              .title = "waiting for data, by source and workers",
              .columns = {"source", "workers", "waits a step", "of the step", "tokens/s"},
              .rows = {}};
  for (const Row& row : rows) {
    table.rows.push_back({words(row.source), quantity(static_cast<double>(row.workers), "", 0),
                          seconds_value(row.stall.wait_seconds),
                          percent(row.stall.wait_seconds / row.stall.whole_seconds),
                          quantity(static_cast<double>(shape.num_tokens) / row.stall.whole_seconds, "", 0)});
  }
  return table;
}

std::vector<Finding> findings_of(const std::vector<Row>& rows, const ReadRates& rates) {
  const auto share_of = [&](const std::string& source, bool has_workers) {
    double least = 1;
    for (const Row& row : rows) {
      if (row.source != source || (row.workers > 0) != has_workers) continue;
      least = std::min(least, row.stall.wait_seconds / row.stall.whole_seconds);
    }
    return percent(least);
  };
  std::vector<Finding> findings = {
      {.key = "plain_without_workers",
       .what = "plain shards, no worker: share of the step",
       .ours = share_of("plain", false),
       .claim = "C16",
       .published = "zero workers block the main thread; 47 % of 12,800 kWh lost to loading and synchronisation"},
      {.key = "plain_with_workers",
       .what = "plain shards, workers: share of the step",
       .ours = share_of("plain", true),
       .advice = "keep data.workers at 1 or more (the default): a worker fills the next micro-batches while the device "
                 "computes"},
      {.key = "read_share",
       .what = "reading in training's order over front to back",
       .ours = {.text = percent(rates.batches / rates.file).text + " (" +
                        quantity(rates.batches / 1e9, "GB/s", 2).text + " of " +
                        quantity(rates.file / 1e9, "GB/s", 2).text + ")",
                .number = rates.batches / rates.file,
                .unit = "share"},
       .claim = "C16",
       .published = "uncompressed Parquet reads reach 32 % of NVMe bandwidth"}};
  const bool has_compressed =
      std::any_of(rows.begin(), rows.end(), [](const Row& row) { return row.source == "gzip"; });
  if (!has_compressed) return findings;
  findings.push_back({.key = "gzip_without_workers",
                      .what = "gzip files, no worker: share of the step",
                      .ours = share_of("gzip", false),
                      .advice = "decompress once, with `litespark prepare`, rather than in every epoch"});
  findings.push_back(
      {.key = "gzip_with_workers", .what = "gzip files, workers: share of the step", .ours = share_of("gzip", true)});
  return findings;
}

}  // namespace

LoaderStall measure_stall(const BatchSource& source, const Loader::Options& options, int64_t num_batches,
                          const std::function<void()>& compute) {
  Loader loader(source, options);
  (void)loader.get(0);  // the first one has nobody to hide behind
  compute();
  LoaderStall stall;
  const double start = monotonic_seconds();
  for (int64_t index = 1; index < num_batches; ++index) {
    const double asked = monotonic_seconds();
    (void)loader.get(static_cast<uint64_t>(index));
    stall.wait_seconds += monotonic_seconds() - asked;
    compute();
  }
  const auto steps = static_cast<double>(std::max<int64_t>(num_batches - 1, 1));
  stall.whole_seconds = (monotonic_seconds() - start) / steps;
  stall.wait_seconds /= steps;
  return stall;
}

Chapter loader_chapter(Backend& backend, const MeasureOptions& options, const LoaderSizes& sizes,
                       const std::filesystem::path& folder) {
  const BatchShape shape{.num_tokens = sizes.sequences * sizes.length,
                         .max_documents = sizes.sequences,
                         .max_length = sizes.length,
                         .uniform = true};
  const std::vector<int32_t> tokens =
      drawn_tokens(kVocab, sizes.num_batches * sizes.sequences * (sizes.length + 1), true);
  std::vector<NamedSource> sources;
  sources.push_back({"plain", make_plain_source(folder / "shards", shape, tokens)});
  const ReadRates rates =
      read_rates(*sources.front().source, shape, folder / "shards" / "shard-00000.tokens", sizes.num_batches);
  if (auto compressed = make_compressed_source(folder, shape, tokens)) {
    sources.push_back({"gzip", std::move(compressed)});
  }
  BusyDevice device(backend, options.compute, sizes.step_seconds);
  std::vector<Row> rows;
  for (const NamedSource& named : sources) {
    for (int64_t workers = 0; workers <= sizes.most_workers; ++workers) {
      rows.push_back({.source = named.name,
                      .workers = workers,
                      .stall = measure_stall(*named.source, {.shape = shape, .workers = workers}, sizes.num_batches,
                                             [&] { device.compute(); })});
    }
  }
  Chapter chapter{.name = "loader", .title = "waiting for data"};
  chapter.setup = {{"micro-batch", std::to_string(sizes.sequences) + " x " + std::to_string(sizes.length) +
                                       " tokens, computed on for " + seconds_value(sizes.step_seconds).text},
                   {"files", folder.string()}};
  chapter.findings = findings_of(rows, rates);
  chapter.tables = {stall_table(rows, shape)};
  return chapter;
}

}  // namespace litespark::anatomy
