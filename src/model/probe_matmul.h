// SPDX-License-Identifier: Apache-2.0
// One matmul on a backend, outside any program: for measuring how fast it is and for checking that it is right.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "ops/backend.h"

namespace litespark {

/// y [rows, out] = x [rows, in] w^T with w [out, in], packed where the backend wants packed weights; zeros at first.
class ProbeMatmul {
 public:
  struct Shape {
    int64_t rows = 0;
    int64_t in_features = 0;
    int64_t out_features = 0;
  };

  ProbeMatmul(Backend& backend, DType compute, const Shape& shape);

  /// Row-major values, rounded to `compute`: a product that is checked needs such as it holds exactly.
  void set_x(const std::vector<float>& values);
  void set_weight(const std::vector<float>& values);
  /// Standard normal numbers in both: equal ones would spare a GPU the switching that real ones cost, and show rates
  /// at a clock that no training has.
  void set_random();
  void run();
  /// Waits for the device.
  std::vector<float> y() const;

 private:
  Tensor make(DType dtype, std::initializer_list<int64_t> extents);
  void write(const Tensor& tensor, const std::vector<float>& values);

  Backend& backend_;
  DType compute_;
  std::vector<std::unique_ptr<DeviceMemory>> memory_;
  Tensor f32_weight_;  ///< what a packed copy is made of
  op::MatmulForward<Tensor> product_;
};

/// Outcome of a product whose result is known.
struct MatmulCheck {
  int64_t num_values = 0;   ///< of one result
  int64_t num_wrong = 0;    ///< in the first result
  int64_t num_changed = 0;  ///< results that differ from the first one, of `num_repeats`
  int64_t num_repeats = 0;
  bool pass() const { return num_wrong == 0 && num_changed == 0; }
};

/// Multiplies small whole numbers, whose sums are exact in any order, and compares every value; then repeats the
/// product and compares every bit. What differs is a broken kernel or a broken machine, never rounding.
MatmulCheck check_matmul(Backend& backend, DType compute, int64_t num_repeats = 20);

/// Values of `y` that are not the known result; for check_matmul and its test.
int64_t count_wrong_products(const std::vector<float>& y);

}  // namespace litespark
