// SPDX-License-Identifier: Apache-2.0
// The end of a program for which the host has no memory left.
#pragma once

namespace litespark::cli {

inline constexpr const char* kOutOfMemoryText =
    "[memory] the host gives no more; got a refused allocation, expected room for it: a smaller train.micro_batch or "
    "fewer data.workers take less";

/// Libraries allocate where nothing may be thrown (a folder iterator's copy, a JSON tree's destructor), or assert on
/// what a failed allocation left behind: such an end is an abort. After a failed `new` the abort says so on the error
/// stream and exits as the error does that is caught elsewhere (ExitCode::kConfig).
void explain_aborts_without_memory();

}  // namespace litespark::cli
