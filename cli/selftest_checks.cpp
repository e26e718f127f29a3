// SPDX-License-Identifier: Apache-2.0
#include "selftest_checks.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <span>

#include "core/memory_pattern.h"
#include "core/text_table.h"
#include "io/file.h"
#include "machine.h"
#include "meter/nvml.h"
#include "meter/rapl.h"
#include "model/matmul_peak.h"
#include "model/probe_matmul.h"
#include "train/invariants.h"

#ifdef LITESPARK_HAS_CPU
#include "ops/cpu/cpu_backend.h"
#endif

namespace litespark::cli {
namespace {

constexpr int64_t kMemoryBytes = int64_t{256} << 20;
constexpr int64_t kFileBytes = int64_t{64} << 20;
constexpr double kTrainingLimit = 1e-3;
/// Two threads that are hardly faster than one share a core with each other or with another job.
constexpr double kWorthASecondThread = 1.3;

std::string joined(const std::map<std::string, std::string>& facts) {
  std::string text;
  for (const auto& [name, value] : facts) text += (text.empty() ? "" : ", ") + name + " " + value;
  return text;
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

std::vector<uint64_t> pattern(int64_t bytes, uint64_t seed) {
  std::vector<uint64_t> words(static_cast<size_t>(bytes) / sizeof(uint64_t));
  fill_pattern(words, seed);
  return words;
}

/// A hint: where the system ignores it, the file is read from memory.
void drop_from_cache(const std::filesystem::path& path) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return;
  posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED);
  close(descriptor);
}

}  // namespace

Check guarded(const std::string& name, const std::function<Check()>& body) {
  try {
    return body();
  } catch (const DeviceError& error) {
    return {.name = name, .outcome = Outcome::kHardware, .detail = error.what()};
  } catch (const Error& error) {
    return {.name = name, .outcome = Outcome::kFail, .detail = error.what()};
  }
}

Check describe_versions() {
  return {.name = "versions", .detail = joined(program_versions())};
}

Check describe_machine(const Backend& backend) {
  return {.name = "machine", .detail = joined(machine_facts(backend))};
}

Check check_known_matmul(Backend& backend, DType compute) {
  const MatmulCheck found = check_matmul(backend, compute);
  Check check{.name = "matmul " + std::string(dtype_name(compute)),
              .detail = std::to_string(found.num_values) + " known values, " + std::to_string(found.num_repeats) +
                        " repeats with the same bits"};
  if (found.pass()) return check;
  check.outcome = Outcome::kHardware;
  check.detail = std::to_string(found.num_wrong) + " of " + std::to_string(found.num_values) + " values wrong, " +
                 std::to_string(found.num_changed) + " of " + std::to_string(found.num_repeats) + " repeats differ";
  return check;
}

Check check_memory(Backend& backend) {
  const int64_t free = backend.free_bytes().value_or(kMemoryBytes);
  const int64_t bytes = std::min(kMemoryBytes, free / 8) / 8 * 8;
  const std::unique_ptr<DeviceMemory> memory = backend.allocate(bytes);
  int64_t damaged = 0;
  for (const uint64_t seed : {1u, 2u}) {
    std::vector<uint64_t> words = pattern(bytes, seed);
    backend.copy_to_device(memory->data(), words.data(), bytes);
    std::fill(words.begin(), words.end(), 0);
    backend.copy_to_host(words.data(), memory->data(), bytes);
    damaged += count_damaged(words, seed);
  }
  const std::string size = bytes_text(bytes) + " of memory, two patterns";
  if (damaged == 0) return {.name = "memory", .detail = size};
  return {.name = "memory",
          .outcome = Outcome::kHardware,
          .detail = std::to_string(damaged) + " words came back damaged from " + size};
}

Check check_disk(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / "pattern";
  const std::vector<uint64_t> words = pattern(kFileBytes, 3);
  const auto bytes = std::as_bytes(std::span(words));
  const auto start = std::chrono::steady_clock::now();
  AtomicFile file(path);
  file.write(bytes);
  file.commit();
  const double write_seconds = seconds_since(start);
  drop_from_cache(path);
  const auto middle = std::chrono::steady_clock::now();
  const std::string found = hash_file(path);
  const double read_seconds = seconds_since(middle);
  if (found != hash_bytes(bytes)) {
    return {.name = "disk",
            .outcome = Outcome::kHardware,
            .detail = bytes_text(kFileBytes) + " came back with another hash from " + folder.parent_path().string()};
  }
  const auto rate = [](double seconds) {
    return bytes_text(static_cast<int64_t>(static_cast<double>(kFileBytes) / seconds)) + "/s";
  };
  return {.name = "disk",
          .detail = bytes_text(kFileBytes) + " written, synced and renamed at " + rate(write_seconds) +
                    ", read and hashed at " + rate(read_seconds) + "; " + bytes_text(free_bytes(folder)) + " free"};
}

std::vector<Check> check_training(Backend& backend, const std::filesystem::path& scratch) {
  std::vector<Check> checks;
  for (const VerifyCheck& found : check_invariants(backend, scratch)) {
    checks.push_back({.name = found.name,
                      .outcome = found.pass ? Outcome::kPass : Outcome::kFail,
                      .detail = found.limit == 0
                                    ? (found.pass ? "bit-equal" : "bits differ")
                                    : "error " + short_text(found.error) + ", limit " + short_text(found.limit)});
  }
  return checks;
}

#ifdef LITESPARK_HAS_CPU

std::vector<Check> check_instruction_sets() {
  const auto train = [](CpuIsa isa) { return train_small_model(*make_cpu_backend({.max_isa = isa})); };
  const SmallTraining generic = train(CpuIsa::kGeneric);
  std::vector<Check> checks;
  for (const std::string name : {"generic", "avx2", "avx512", "avx512bf16", "amx"}) {
    const CpuIsa isa = parse_cpu_isa(name);
    if (isa > detect_cpu_isa()) {
      checks.push_back({.name = name, .outcome = Outcome::kSkip, .detail = "this processor does not have it"});
      continue;
    }
    const SmallTraining first = train(isa);
    const double difference = training_difference(first, generic);
    Check check{.name = name, .detail = "two trainings with the same bits"};
    if (isa != CpuIsa::kGeneric) check.detail += "; " + short_text(difference) + " from generic";
    if (!is_same_training(first, train(isa))) {
      check.outcome = Outcome::kHardware;
      check.detail = "two runs of the same training differ";
    } else if (!(difference <= kTrainingLimit)) {
      check.outcome = Outcome::kFail;
      check.detail += ", limit " + short_text(kTrainingLimit);
    }
    checks.push_back(std::move(check));
  }
  return checks;
}

std::vector<Check> check_threads() {
  const auto one = make_cpu_backend({.threads = 1});
  const auto two = make_cpu_backend({.threads = 2});
  const auto all = make_cpu_backend({});
  Check bits{.name = "thread count", .detail = "one thread and all give the same bits"};
  if (!is_same_training(train_small_model(*one), train_small_model(*all))) {
    bits.outcome = Outcome::kFail;
    bits.detail = "one thread and all differ in bits";
  }
  const double ratio = measure_matmul_rate(*two, DType::kF32) / measure_matmul_rate(*one, DType::kF32);
  Check scaling{.name = "thread scaling", .detail = "two threads are " + short_text(ratio) + " times one"};
  if (ratio < kWorthASecondThread) {
    scaling.outcome = Outcome::kNote;
    scaling.detail += ", less than " + short_text(kWorthASecondThread) +
                      ": another job holds a core, or there is only one; see device.threads";
  }
  return {std::move(bits), std::move(scaling)};
}

#else

std::vector<Check> check_instruction_sets() {
  return {};
}
std::vector<Check> check_threads() {
  return {};
}

#endif

Check check_sensors(bool is_gpu) {
  Check check{.name = "energy", .detail = ""};
  bool has_cpu = false;
  for (const auto& sensor : find_rapl_sensors()) {
    has_cpu = has_cpu || sensor->part() == EnergyPart::kCpu;
    check.detail += sensor->device() + " by counter, ";
  }
  if (!has_cpu) {
    check.outcome = Outcome::kNote;
    check.detail += "processor and memory estimated (no readable counter under /sys/class/powercap), ";
  }
  const auto driver = open_nvml();
  for (int i = 0; driver && i < driver->num_gpus(); ++i) {
    check.detail += driver->board_name(i).value_or("gpu") + " " + driver->uuid(i).value_or("?") +
                    (driver->energy_millijoules(i) ? " by counter, " : " from power readings, ");
  }
  if (is_gpu && !driver) {
    check.outcome = Outcome::kNote;
    check.detail += "gpu unavailable (no libnvidia-ml.so.1), ";
  }
  check.detail.resize(check.detail.size() - 2);
  return check;
}

}  // namespace litespark::cli
