// SPDX-License-Identifier: Apache-2.0
// Whether this is a sanitizer's build, which has a malloc of its own: it keeps freed memory, tells nothing to the C
// library's counters, and is hidden by an interposed one.
#pragma once

namespace litespark::test {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kHasSanitizersMalloc = true;
#elif defined(__has_feature)
inline constexpr bool kHasSanitizersMalloc = __has_feature(address_sanitizer) || __has_feature(thread_sanitizer);
#else
inline constexpr bool kHasSanitizersMalloc = false;
#endif

}  // namespace litespark::test
