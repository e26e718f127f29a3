// SPDX-License-Identifier: Apache-2.0
// BackendSizes of a backend that needs nothing beside the tensors: for tests of tapes and plans.
#pragma once

#include "core/backend_sizes.h"

namespace litespark {

class PlainSizes : public BackendSizes {
 public:
  explicit PlainSizes(bool packs = false) : packs_(packs) {}
  bool exact() const override { return true; }
  bool packs_weights(DType) const override { return packs_; }
  int64_t packed_bytes(const LinearShape& shape, op::PackForm) const override {
    return shape.in_features * shape.out_features * dtype_bytes(shape.compute);
  }
  int64_t matmul_forward_scratch_bytes(const LinearShape&) const override { return 0; }
  int64_t matmul_backward_input_scratch_bytes(const LinearShape&) const override { return 0; }
  int64_t matmul_backward_weight_scratch_bytes(const LinearShape&) const override { return 0; }
  int64_t attention_forward_scratch_bytes(const op::AttentionShape&, int64_t, DType) const override { return 0; }
  int64_t attention_backward_scratch_bytes(const op::AttentionShape&, int64_t, DType) const override { return 0; }

 private:
  bool packs_;
};

}  // namespace litespark
