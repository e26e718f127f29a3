// SPDX-License-Identifier: Apache-2.0
#include "reference/fp8.h"

#include <cmath>
#include <limits>

#include "reference/real.h"

namespace litespark::reference {

double fp8_value(DType format, uint8_t code) {
  const bool wide = format == DType::kE5M2;
  const int mantissa_bits = wide ? 2 : 3;
  const int bias = wide ? 15 : 7;
  const double sign = (code & 0x80) != 0 ? -1.0 : 1.0;
  const int exponent = (code & 0x7f) >> mantissa_bits;
  const int mantissa = code & ((1 << mantissa_bits) - 1);
  if (wide && exponent == 31) {
    return mantissa == 0 ? sign * std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  }
  if (!wide && exponent == 15 && mantissa == 7) return std::numeric_limits<double>::quiet_NaN();
  const double fraction = std::ldexp(static_cast<double>(mantissa), -mantissa_bits);
  return exponent == 0 ? sign * std::ldexp(fraction, 1 - bias) : sign * std::ldexp(1.0 + fraction, exponent - bias);
}

uint8_t nearest_fp8(DType format, double value) {
  if (std::isnan(value)) return 0x7f;
  // Values grow with their codes.
  uint8_t largest = 0x7f;
  while (!std::isfinite(fp8_value(format, largest))) --largest;
  const double magnitude = std::abs(value);
  int below = 0, end = largest + 1;
  while (end - below > 1) {
    const int middle = (below + end) / 2;
    (fp8_value(format, static_cast<uint8_t>(middle)) <= magnitude ? below : end) = middle;
  }
  const double lower = fp8_value(format, static_cast<uint8_t>(below));
  int nearest = below;
  if (below < largest) {
    const double upper = fp8_value(format, static_cast<uint8_t>(below + 1));
    const double to_lower = magnitude - lower, to_upper = upper - magnitude;
    if (to_upper < to_lower || (to_upper == to_lower && below % 2 == 1)) nearest = below + 1;
  }
  return static_cast<uint8_t>(nearest | (std::signbit(value) ? 0x80 : 0));
}

template <class Real>
test::Values evaluate(const op::ScaledMatmul<Tensor>& op, const test::Values& in) {
  const auto rows = static_cast<size_t>(op.a.rows());
  const auto columns = static_cast<size_t>(op.b.rows());
  const auto depth = static_cast<size_t>(op.a.columns());
  const std::vector<Real> a = as_real<Real>(in.at("a")), b = as_real<Real>(in.at("b"));
  const std::vector<Real> a_scale = as_real<Real>(in.at("a_scale")), b_scale = as_real<Real>(in.at("b_scale"));
  std::vector<Real> out(rows * columns);
  for (size_t m = 0; m < rows; ++m) {
    for (size_t n = 0; n < columns; ++n) {
      Real sum = 0;
      for (size_t k = 0; k < depth; ++k) sum += a[m * depth + k] * b[n * depth + k];
      sum *= a_scale[a_scale.size() > 1 ? m : 0] * b_scale[b_scale.size() > 1 ? n : 0];
      if (op.bias.has_value()) sum += static_cast<Real>(in.at("bias")[n]);
      if (op.accumulate) sum += static_cast<Real>(in.at("out")[m * columns + n]);
      out[m * columns + n] = sum;
    }
  }
  return {.tensors = {{"out", as_double(out)}}, .state = in.state};
}

template test::Values evaluate<double>(const op::ScaledMatmul<Tensor>& op, const test::Values& in);
template test::Values evaluate<float>(const op::ScaledMatmul<Tensor>& op, const test::Values& in);

}  // namespace litespark::reference
