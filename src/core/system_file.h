// SPDX-License-Identifier: Apache-2.0
// The short files in which a kernel says how it is doing (/proc, /sys, cgroups), read into memory of the caller, so
// that looking at a run does not disturb its heap.
#pragma once

#include <span>
#include <string_view>

namespace litespark {

/// The file's beginning, as much as fits into `buffer`; "" when it cannot be read.
std::string_view read_system_file(const char* path, std::span<char> buffer);

}  // namespace litespark
