// SPDX-License-Identifier: Apache-2.0
// Where attention's statistics stand: by head, or by document as cuDNN keeps them.
#pragma once

#include <cstdint>
#include <vector>

namespace litespark::test {

/// Statistics of equal documents from [H, N] to [B, H, T]. `Case`: AttentionCase or GpuAttentionCase.
template <class Case>
std::vector<double> statistics_by_document(const std::vector<double>& by_head, const Case& c) {
  std::vector<double> result;
  for (size_t document = 0; document < c.lengths.size(); ++document) {
    for (int head = 0; head < c.heads; ++head) {
      const auto first = by_head.begin() + head * c.rows() + static_cast<int64_t>(document) * c.lengths[0];
      result.insert(result.end(), first, first + c.lengths[0]);
    }
  }
  return result;
}

}  // namespace litespark::test
