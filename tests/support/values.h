// SPDX-License-Identifier: Apache-2.0
// Tensor contents of a test: doubles by tensor name, as an op's `map` names them, and the step state beside them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/dtype.h"
#include "core/step_state.h"

namespace litespark::test {

struct Values {
  std::map<std::string, std::vector<double>, std::less<>> tensors;
  StepState state;

  bool has(std::string_view name) const { return tensors.find(name) != tensors.end(); }
  /// Throws InternalError when there is no such tensor.
  const std::vector<double>& at(std::string_view name) const;
};

/// The nearest value of `dtype` (ties to even); integers are cut off; f64 stays. 8-bit floats are rounded from f32.
double round_to(DType dtype, double value);

/// Bytes as a tensor of `dtype` holds them, and back. Values are rounded.
std::vector<std::byte> encode(DType dtype, std::span<const double> values);
std::vector<double> decode(DType dtype, std::span<const std::byte> bytes);

/// Standard normal values times `scale`, rounded to `dtype`; the same for the same seed.
std::vector<double> random_normal(DType dtype, int64_t size, uint64_t seed, double scale = 1.0);
/// Integers in [0, bound).
std::vector<double> random_integers(int64_t size, uint64_t seed, int64_t bound);

}  // namespace litespark::test
