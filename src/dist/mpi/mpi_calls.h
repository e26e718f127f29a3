// SPDX-License-Identifier: Apache-2.0
// What all calls of MPI in this process have in common.
#pragma once

#include <mpi.h>

#include <array>
#include <mutex>
#include <string>

#include "dist/link.h"

namespace litespark::dist {

/// MPI_THREAD_SERIALIZED: one thread of this process at a time.
inline std::mutex& mpi_mutex() {
  static std::mutex mutex;
  return mutex;
}

/// Throws LinkFailure with MPI's own words unless `status` is MPI_SUCCESS.
inline void must_mpi(int status, const char* what) {
  if (status == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text = {};
  int length = 0;
  MPI_Error_string(status, text.data(), &length);
  throw LinkFailure(std::string(what) + ": " + text.data());
}

}  // namespace litespark::dist
