// SPDX-License-Identifier: Apache-2.0
// What the conformance cases of communicators send and compare: values that are known functions of rank and place, and
// one rank's tensors.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "communicator_conformance.h"
#include "core/bf16.h"

namespace litespark::test {

using Values = std::vector<double>;

inline void require(bool is_right, const std::string& what) {
  if (!is_right) throw std::runtime_error(what);
}

/// In [-1, 1), of 24 significant bits, different everywhere.
inline double value_at(int rank, int64_t index) {
  uint64_t bits =
      static_cast<uint64_t>(index) * 0x9e3779b97f4a7c15u + static_cast<uint64_t>(rank + 1) * 0xbf58476d1ce4e5b9u;
  bits ^= bits >> 31;
  bits *= 0x94d049bb133111ebu;
  bits ^= bits >> 29;
  return static_cast<double>(bits >> 40) / 8388608.0 - 1.0;
}

inline double rounded(DType dtype, double value) {
  if (dtype == DType::kF32) return static_cast<double>(static_cast<float>(value));
  if (dtype == DType::kBF16) return static_cast<double>(to_float(to_bf16(static_cast<float>(value))));
  return value;
}

inline Values values_of(DType dtype, int rank, int64_t count) {
  Values values(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) values[static_cast<size_t>(i)] = rounded(dtype, value_at(rank, i));
  return values;
}

/// One rank's tensors: made, filled and read back in the memory where the communicator wants them.
class Bench {
 public:
  Bench(RankMemory& memory, DType dtype) : memory_(memory), dtype_(dtype) {}

  Tensor make(int64_t count) const {
    Tensor tensor{.data = nullptr, .dtype = dtype_, .shape = {count}, .device = memory_.device()};
    tensor.data = memory_.allocate(std::max<int64_t>(tensor.bytes(), 1));
    return tensor;
  }

  Tensor filled(const Values& values) const {
    const Tensor tensor = make(static_cast<int64_t>(values.size()));
    std::vector<std::byte> bytes(static_cast<size_t>(tensor.bytes()));
    for (size_t i = 0; i < values.size(); ++i) {
      std::byte* place = bytes.data() + i * static_cast<size_t>(dtype_bytes(dtype_));
      if (dtype_ == DType::kF64) store(place, values[i]);
      if (dtype_ == DType::kF32) store(place, static_cast<float>(values[i]));
      if (dtype_ == DType::kBF16) store(place, to_bf16(static_cast<float>(values[i])));
      if (dtype_ == DType::kU8) store(place, static_cast<uint8_t>(values[i]));
    }
    memory_.write(tensor.data, bytes.data(), tensor.bytes());
    return tensor;
  }

  Values read(const Tensor& tensor) const {
    std::vector<std::byte> bytes(static_cast<size_t>(tensor.bytes()));
    memory_.read(bytes.data(), tensor.data, tensor.bytes());
    Values values(static_cast<size_t>(tensor.num_elements()));
    for (size_t i = 0; i < values.size(); ++i) {
      const std::byte* place = bytes.data() + i * static_cast<size_t>(dtype_bytes(dtype_));
      if (dtype_ == DType::kF64) values[i] = load<double>(place);
      if (dtype_ == DType::kF32) values[i] = static_cast<double>(load<float>(place));
      if (dtype_ == DType::kBF16) values[i] = static_cast<double>(to_float(load<bf16>(place)));
      if (dtype_ == DType::kU8) values[i] = load<uint8_t>(place);
    }
    return values;
  }

  Tensor piece(const Tensor& whole, int index, int count) const {
    const int64_t elements = whole.num_elements() / count;
    Tensor part = whole;
    part.shape = {elements};
    part.data = static_cast<std::byte*>(whole.data) + index * elements * dtype_bytes(dtype_);
    return part;
  }

 private:
  template <class T>
  static void store(std::byte* place, T value) {
    std::memcpy(place, &value, sizeof(T));
  }
  template <class T>
  static T load(const std::byte* place) {
    T value;
    std::memcpy(&value, place, sizeof(T));
    return value;
  }

  RankMemory& memory_;
  DType dtype_;
};

inline bool is_equal(double a, double b) {
  return a == b || (std::isnan(a) && std::isnan(b));
}

inline void require_equal(const Values& found, const Values& expected, const std::string& what) {
  require(found.size() == expected.size(), what + ": wrong number of values");
  for (size_t i = 0; i < found.size(); ++i) {
    require(is_equal(found[i], expected[i]), what + ": at " + std::to_string(i) + " of " +
                                                 std::to_string(found.size()) + " got " + std::to_string(found[i]) +
                                                 ", expected " + std::to_string(expected[i]));
  }
}

/// The sum in rank order, as the contract words it: f32 and f64 in themselves, bf16 in f32 and rounded once.
inline double ordered_sum(DType dtype, const std::vector<Values>& all, size_t i) {
  if (dtype == DType::kF64) {
    double sum = all[0][i];
    for (size_t rank = 1; rank < all.size(); ++rank) sum += all[rank][i];
    return sum;
  }
  auto sum = static_cast<float>(all[0][i]);
  for (size_t rank = 1; rank < all.size(); ++rank) sum += static_cast<float>(all[rank][i]);
  return rounded(dtype, static_cast<double>(sum));
}

inline double largest(const std::vector<Values>& all, size_t i) {
  double most = -std::numeric_limits<double>::infinity();
  for (const Values& values : all) {
    if (std::isnan(values[i])) return values[i];
    most = std::max(most, values[i]);
  }
  return most;
}

inline double rounding_of(DType dtype) {
  return dtype == DType::kBF16 ? 0x1p-8 : dtype == DType::kF32 ? 0x1p-23 : 0x1p-52;
}

/// `found` must be elements [first, first + found.size()) of the reduction of `all`.
inline void require_reduced(const Communicator& communicator, DType dtype, Reduction reduction,
                            const std::vector<Values>& all, const Values& found, size_t first,
                            const std::string& what) {
  for (size_t i = 0; i < found.size(); ++i) {
    const double expected = reduction == Reduction::kMax ? largest(all, first + i) : ordered_sum(dtype, all, first + i);
    double slack = 0;
    if (reduction == Reduction::kSum && !communicator.is_ordered()) {
      for (const Values& values : all) slack += std::abs(values[first + i]);
      slack *= rounding_of(dtype) * static_cast<double>(all.size());
    }
    require(is_equal(found[i], expected) || std::abs(found[i] - expected) <= slack,
            what + ": element " + std::to_string(first + i) + " is " + std::to_string(found[i]) + ", expected " +
                std::to_string(expected));
  }
}

inline std::vector<Values> values_of_all(DType dtype, int size, int64_t count) {
  std::vector<Values> all;
  for (int rank = 0; rank < size; ++rank) all.push_back(values_of(dtype, rank, count));
  return all;
}

}  // namespace litespark::test
