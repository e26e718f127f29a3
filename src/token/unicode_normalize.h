// SPDX-License-Identifier: Apache-2.0
// The four Unicode normal forms. Text that is in form already, which nearly all is, is recognised without a copy.
#pragma once

#include <string>
#include <string_view>

namespace litespark::token {

enum class NormalForm { kNfc, kNfd, kNfkc, kNfkd };

/// `text` (valid UTF-8) in `form`: `text` itself if it is already, else the result in `buffer`, which must not hold it.
std::string_view to_normal_form(NormalForm form, std::string_view text, std::string* buffer);

}  // namespace litespark::token
