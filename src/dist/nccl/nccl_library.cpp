// SPDX-License-Identifier: Apache-2.0
#include "dist/nccl/nccl_library.h"

#include <dlfcn.h>

#include <array>
#include <cstdlib>

#include "core/error.h"

namespace litespark::dist {
namespace {

/// ncclCommInitRankConfig with non-blocking communicators as they are used here.
constexpr int kOldestVersion = 21800;

struct OpenLibrary {
  void* handle = nullptr;
  std::string path;
};

OpenLibrary open_library() {
  std::string reasons;
  for (const char* path : std::array{LITESPARK_NCCL_PATH, "libnccl.so.2"}) {
    if (*path == '\0') continue;
    if (void* handle = dlopen(path, RTLD_NOW | RTLD_LOCAL); handle != nullptr) return {handle, path};
    const char* reason = dlerror();
    reasons += std::string(reasons.empty() ? "" : "; ") + (reason != nullptr ? reason : path);
  }
  throw ConfigError("nccl", "the library is not there: " + reasons, "none", "libnccl.so.2",
                    "name its folder in LD_LIBRARY_PATH, or train on one GPU");
}

template <class Function>
void find(const OpenLibrary& library, const char* name, Function& function) {
  void* symbol = dlsym(library.handle, name);
  if (symbol == nullptr) throw ConfigError("nccl", library.path + " has no function", name, "NCCL 2.18 or later");
  function = reinterpret_cast<Function>(symbol);
}

NcclLibrary load() {
  // NVLink multicast is not there on every host that has NVLink, and the reduce-scatters and all-gathers of a step gain
  // nothing from it. NCCL reads its settings when it is first used, which is after this.
  setenv("NCCL_NVLS_ENABLE", "0", 0);
  const OpenLibrary opened = open_library();
  NcclLibrary library{};
  library.path = opened.path;
  find(opened, "ncclGetVersion", library.get_version);
  find(opened, "ncclGetErrorString", library.get_error_string);
  find(opened, "ncclGetLastError", library.get_last_error);
  find(opened, "ncclGetUniqueId", library.get_unique_id);
  find(opened, "ncclCommInitRankConfig", library.comm_init_rank_config);
  find(opened, "ncclCommGetAsyncError", library.comm_get_async_error);
  find(opened, "ncclCommFinalize", library.comm_finalize);
  find(opened, "ncclCommDestroy", library.comm_destroy);
  find(opened, "ncclCommAbort", library.comm_abort);
  find(opened, "ncclAllReduce", library.all_reduce);
  find(opened, "ncclReduceScatter", library.reduce_scatter);
  find(opened, "ncclAllGather", library.all_gather);
  find(opened, "ncclBroadcast", library.broadcast);
  find(opened, "ncclSend", library.send);
  find(opened, "ncclRecv", library.recv);
  find(opened, "ncclGroupStart", library.group_start);
  find(opened, "ncclGroupEnd", library.group_end);
  library.get_version(&library.version);
  if (library.version < kOldestVersion)
    throw ConfigError("nccl", library.path + " is too old", library.version,
                      std::to_string(kOldestVersion) + " or later");
  return library;
}

}  // namespace

const NcclLibrary& nccl_library() {
  static const NcclLibrary library = load();
  return library;
}

void check(cudaError_t status, std::string_view call) {
  if (status == cudaSuccess) return;
  throw DeviceError("nccl communicator",
                    std::string(call) + ": " + cudaGetErrorName(status) + " (" + cudaGetErrorString(status) + ")");
}

}  // namespace litespark::dist
