// SPDX-License-Identifier: Apache-2.0
// Preloaded before litespark's own libraries: counts requests for memory while the steps of LITESPARK_COUNT_STEPS
// ("FIRST-LAST") run, and says in LITESPARK_COUNT_FILE who made them. A step ends when its line goes to metrics.jsonl.
// A request belongs to the innermost caller that is neither the C nor the C++ library: ours, oneDNN or OpenMP.
#include <dlfcn.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

// The C library's own entrances, which an interposed malloc may call.
extern "C" void* __libc_malloc(size_t);
extern "C" void* __libc_calloc(size_t, size_t);
extern "C" void* __libc_realloc(void*, size_t);
extern "C" void* __libc_memalign(size_t, size_t);

namespace {

enum class Owner : uint8_t { kOurs, kOneDnn, kOpenMp, kRuntime };

/// Executable code of one loaded object.
struct CodeRange {
  uintptr_t begin = 0, end = 0, base = 0;
  Owner owner = Owner::kOurs;
};

std::array<CodeRange, 128> ranges;
int num_ranges = 0;
long first_step = 0, last_step = -1;
std::atomic<long> steps_done{-1};
std::array<std::atomic<long>, 4> counts{};
/// Where our own requests came from: offsets in the program's file, for addr2line.
std::array<std::array<uintptr_t, 3>, 64> sites{};
std::atomic<int> num_sites{0};
thread_local bool is_looking = false;

/// Two threads may give one site two places; it is there in any case.
void remember(const std::array<uintptr_t, 3>& site) {
  for (int i = 0; i < std::min(num_sites.load(), static_cast<int>(sites.size())); ++i) {
    if (sites[static_cast<size_t>(i)] == site) return;
  }
  const int place = num_sites.fetch_add(1);
  if (place < static_cast<int>(sites.size())) sites[static_cast<size_t>(place)] = site;
}

Owner owner_of(const char* name) {
  const char* const slash = std::strrchr(name, '/');
  const char* const file = slash != nullptr ? slash + 1 : name;
  const auto begins = [file](const char* text) { return std::strncmp(file, text, std::strlen(text)) == 0; };
  if (begins("libdnnl")) return Owner::kOneDnn;
  if (begins("libgomp")) return Owner::kOpenMp;
  for (const char* text : {"libc.so", "libstdc++", "libgcc", "ld-linux", "libm.so", "liblitespark_counting"}) {
    if (begins(text)) return Owner::kRuntime;
  }
  return Owner::kOurs;
}

int add_ranges(dl_phdr_info* object, size_t, void*) {
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const auto& segment = object->dlpi_phdr[i];
    if (segment.p_type != PT_LOAD || (segment.p_flags & PF_X) == 0 || num_ranges == static_cast<int>(ranges.size())) {
      continue;
    }
    const uintptr_t begin = object->dlpi_addr + segment.p_vaddr;
    ranges[static_cast<size_t>(num_ranges++)] = {.begin = begin,
                                                 .end = begin + segment.p_memsz,
                                                 .base = object->dlpi_addr,
                                                 .owner = owner_of(object->dlpi_name)};
  }
  return 0;
}

const CodeRange* range_of(const void* place) {
  const auto address = reinterpret_cast<uintptr_t>(place);
  const CodeRange* const end = ranges.data() + num_ranges;
  const CodeRange* const found =
      std::find_if(static_cast<const CodeRange*>(ranges.data()), end,
                   [&](const CodeRange& r) { return address >= r.begin && address < r.end; });
  return found == end ? nullptr : found;
}

void count() {
  const long done = steps_done.load(std::memory_order_relaxed);
  if (done < first_step - 1 || done >= last_step || is_looking) return;
  is_looking = true;
  std::array<void*, 24> frames{};
  const int depth = backtrace(frames.data(), static_cast<int>(frames.size()));
  Owner owner = Owner::kRuntime;
  std::array<uintptr_t, 3> site{};
  size_t num_in_site = 0;
  for (int i = 0; i < depth; ++i) {
    const CodeRange* const range = range_of(frames[static_cast<size_t>(i)]);
    if (range == nullptr || range->owner == Owner::kRuntime) continue;
    if (owner == Owner::kRuntime) owner = range->owner;
    if (range->owner == Owner::kOurs && num_in_site < site.size()) {
      site[num_in_site++] = reinterpret_cast<uintptr_t>(frames[static_cast<size_t>(i)]) - range->base - 1;
    }
  }
  counts[static_cast<size_t>(owner)].fetch_add(1);

  if (owner == Owner::kOurs) remember(site);
  is_looking = false;
}

void write_counts() {
  const char* const path = std::getenv("LITESPARK_COUNT_FILE");
  if (path == nullptr) return;
  std::FILE* const file = std::fopen(path, "w");
  if (file == nullptr) return;
  std::fprintf(file, "steps %ld\nours %ld\nonednn %ld\nopenmp %ld\nruntime %ld\n", last_step - first_step + 1,
               counts[0].load(), counts[1].load(), counts[2].load(), counts[3].load());
  for (int i = 0; i < std::min(num_sites.load(), static_cast<int>(sites.size())); ++i) {
    const auto& site = sites[static_cast<size_t>(i)];
    std::fprintf(file, "site 0x%zx 0x%zx 0x%zx\n", site[0], site[1], site[2]);
  }
  std::fclose(file);
}

/// The record of a step, as metrics.jsonl has it.
void notice_step(const char* text, size_t bytes) {
  constexpr const char* kOpening = "{\"step\": ";
  if (bytes <= std::strlen(kOpening) || std::strncmp(text, kOpening, std::strlen(kOpening)) != 0) return;
  if (memmem(text, bytes, "\"tokens\"", 8) == nullptr) return;
  const long step = std::atol(text + std::strlen(kOpening));
  if (step == 1) {
    std::array<void*, 1> frame{};
    backtrace(frame.data(), 1);  // loads what it needs, which allocates
    dl_iterate_phdr(add_ranges, nullptr);
    const char* const steps = std::getenv("LITESPARK_COUNT_STEPS");
    if (steps != nullptr) std::sscanf(steps, "%ld-%ld", &first_step, &last_step);
  }
  steps_done = step;
  if (step == last_step) write_counts();
}

}  // namespace

extern "C" {

void* malloc(size_t bytes) {
  count();
  return __libc_malloc(bytes);
}
void* calloc(size_t number, size_t bytes) {
  count();
  return __libc_calloc(number, bytes);
}
void* realloc(void* old, size_t bytes) {
  count();
  return __libc_realloc(old, bytes);
}
void* memalign(size_t alignment, size_t bytes) {
  count();
  return __libc_memalign(alignment, bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) {
  count();
  return __libc_memalign(alignment, bytes);
}
int posix_memalign(void** out, size_t alignment, size_t bytes) {
  count();
  *out = __libc_memalign(alignment, bytes);
  return *out == nullptr ? ENOMEM : 0;
}

ssize_t write(int descriptor, const void* data, size_t bytes) {
  using Write = ssize_t (*)(int, const void*, size_t);
  static const auto real = reinterpret_cast<Write>(dlsym(RTLD_NEXT, "write"));
  const ssize_t result = real(descriptor, data, bytes);
  if (result == static_cast<ssize_t>(bytes)) notice_step(static_cast<const char*>(data), bytes);
  return result;
}

}  // extern "C"
