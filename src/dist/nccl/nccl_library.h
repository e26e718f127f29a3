// SPDX-License-Identifier: Apache-2.0
// NCCL's functions, looked up in the library when the first communicator is made.
#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <string>
#include <string_view>

namespace litespark::dist {

/// One pointer a function that we call, by NCCL's own names without their prefix.
struct NcclLibrary {
  decltype(&ncclGetVersion) get_version;
  decltype(&ncclGetErrorString) get_error_string;
  decltype(&ncclGetLastError) get_last_error;
  decltype(&ncclGetUniqueId) get_unique_id;
  decltype(&ncclCommInitRankConfig) comm_init_rank_config;
  decltype(&ncclCommGetAsyncError) comm_get_async_error;
  decltype(&ncclCommFinalize) comm_finalize;
  decltype(&ncclCommDestroy) comm_destroy;
  decltype(&ncclCommAbort) comm_abort;
  decltype(&ncclAllReduce) all_reduce;
  decltype(&ncclReduceScatter) reduce_scatter;
  decltype(&ncclAllGather) all_gather;
  decltype(&ncclBroadcast) broadcast;
  decltype(&ncclSend) send;
  decltype(&ncclRecv) recv;
  decltype(&ncclGroupStart) group_start;
  decltype(&ncclGroupEnd) group_end;

  int version = 0;   ///< 22809
  std::string path;  ///< of the file that was opened
};

/// Opens the library once a process. Turns multicast (NVLS) off before NCCL reads its settings, unless the user set
/// NCCL_NVLS_ENABLE. Throws ConfigError when the library is not there or is older than 2.18.
const NcclLibrary& nccl_library();

/// DeviceError for a CUDA status, with the call.
void check(cudaError_t status, std::string_view call);

}  // namespace litespark::dist
