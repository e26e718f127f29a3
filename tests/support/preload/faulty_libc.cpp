// SPDX-License-Identifier: Apache-2.0
// Preloaded before litespark's own libraries. The n-th allocation that is made once main() runs finds no memory, n from
// LITESPARK_FAIL_ALLOCATION, and says so by creating LITESPARK_FAIL_MARK; oneDNN's own, whose failures it does not
// survive, are spared. Disks have LITESPARK_FREE_BYTES free. Without these nothing changes.
#include <dlfcn.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>

// The C library's own entrances, which an interposed malloc may call.
extern "C" void* __libc_malloc(size_t);
extern "C" void* __libc_calloc(size_t, size_t);
extern "C" void* __libc_realloc(void*, size_t);
extern "C" void* __libc_memalign(size_t, size_t);

namespace {

using Main = int (*)(int, char**, char**);

std::atomic<long> left{0};
Main real_main = nullptr;

/// Where oneDNN's code lies: [begin, end).
uintptr_t onednn_begin = 0;
uintptr_t onednn_end = 0;

int find_onednn(dl_phdr_info* library, size_t, void*) {
  if (std::strstr(library->dlpi_name, "libdnnl") == nullptr) return 0;
  for (int i = 0; i < library->dlpi_phnum; ++i) {
    const auto& segment = library->dlpi_phdr[i];
    if (segment.p_type != PT_LOAD || (segment.p_flags & PF_X) == 0) continue;
    onednn_begin = library->dlpi_addr + segment.p_vaddr;
    onednn_end = onednn_begin + segment.p_memsz;
  }
  return 1;
}

bool is_called_by_onednn() {
  std::array<void*, 16> frames{};
  const int count = backtrace(frames.data(), static_cast<int>(frames.size()));
  for (int i = 0; i < count; ++i) {
    const auto place = reinterpret_cast<uintptr_t>(frames[static_cast<size_t>(i)]);
    if (place >= onednn_begin && place < onednn_end) return true;
  }
  return false;
}

/// True for exactly one call of each process.
bool is_out_of_memory() {
  if (left.load(std::memory_order_relaxed) <= 0 || left.fetch_sub(1) != 1) return false;
  if (is_called_by_onednn()) {
    left = 1;  // the next one instead
    return false;
  }
  const char* const mark = std::getenv("LITESPARK_FAIL_MARK");
  if (mark != nullptr) close(open(mark, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  errno = ENOMEM;
  return true;
}

int armed_main(int argc, char** argv, char** environment) {
  std::array<void*, 1> frame{};
  backtrace(frame.data(), 1);  // loads what it needs, which allocates
  dl_iterate_phdr(find_onednn, nullptr);
  const char* const number = std::getenv("LITESPARK_FAIL_ALLOCATION");
  if (number != nullptr) left = std::atol(number);
  const int result = real_main(argc, argv, environment);
  left = 0;
  return result;
}

}  // namespace

extern "C" {

void* malloc(size_t bytes) {
  return is_out_of_memory() ? nullptr : __libc_malloc(bytes);
}
void* calloc(size_t count, size_t bytes) {
  return is_out_of_memory() ? nullptr : __libc_calloc(count, bytes);
}
void* realloc(void* old, size_t bytes) {
  return is_out_of_memory() ? nullptr : __libc_realloc(old, bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) {
  return is_out_of_memory() ? nullptr : __libc_memalign(alignment, bytes);
}
int posix_memalign(void** out, size_t alignment, size_t bytes) {
  *out = is_out_of_memory() ? nullptr : __libc_memalign(alignment, bytes);
  return *out == nullptr ? ENOMEM : 0;
}

int statvfs(const char* path, struct statvfs* status) {
  using Statvfs = int (*)(const char*, struct statvfs*);
  static const auto real = reinterpret_cast<Statvfs>(dlsym(RTLD_NEXT, "statvfs"));
  const int result = real(path, status);
  const char* const free_bytes = std::getenv("LITESPARK_FREE_BYTES");
  if (free_bytes == nullptr) return result;
  status->f_frsize = 1;
  status->f_bavail = static_cast<fsblkcnt_t>(std::atoll(free_bytes));
  return result;
}

int __libc_start_main(Main main, int argc, char** argv, void (*init)(), void (*fini)(), void (*loader_fini)(),
                      void* stack_end) {
  using Start = int (*)(Main, int, char**, void (*)(), void (*)(), void (*)(), void*);
  real_main = main;
  const auto start = reinterpret_cast<Start>(dlsym(RTLD_NEXT, "__libc_start_main"));
  return start(armed_main, argc, argv, init, fini, loader_fini, stack_end);
}

}  // extern "C"
