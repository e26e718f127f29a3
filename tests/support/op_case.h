// SPDX-License-Identifier: Apache-2.0
// Runs one op of any backend on guarded memory. The op's own `map` says what is read and what is written: inputs must
// come out unchanged, outputs start as NaN, and the bytes around every tensor must survive.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>

#include "ops/backend.h"
#include "support/values.h"

namespace litespark::test {

/// A tensor without memory, for the shapes of a case.
inline Tensor shape_only(DType dtype, Shape shape) {
  return {.data = nullptr, .dtype = dtype, .shape = shape, .device = Device::kCpu};
}
inline Tensor state_shape() {
  return shape_only(DType::kU8, {static_cast<int64_t>(sizeof(StepState))});
}

template <class Op>
struct OpCase {
  std::string name;
  Op op;                                                         ///< shapes, dtypes and scalars; no data
  Values inputs;                                                 ///< of every tensor that the op reads
  std::map<std::string, std::string, std::less<>> aliases = {};  ///< tensor -> tensor that shares its memory
};

/// What came out: values and the bytes behind them, by tensor name.
struct Execution {
  Values outputs;
  std::map<std::string, DType, std::less<>> dtypes;
  std::map<std::string, std::vector<std::byte>, std::less<>> bytes;
};

/// Memory of one case on one backend. Passed to an op's `map`, it gives every tensor its memory.
class CaseMemory {
 public:
  CaseMemory(Backend& backend, const Values& inputs, const std::map<std::string, std::string, std::less<>>& aliases);
  ~CaseMemory();

  Tensor in(std::string_view name, const Tensor& tensor);
  Tensor out(std::string_view name, const Tensor& tensor);
  Tensor inout(std::string_view name, const Tensor& tensor);

  /// Reads everything back; reports broken guards and changed inputs as test failures.
  Execution collect(const std::string& case_name);

 private:
  struct Guarded;
  Guarded& place(std::string_view name, const Tensor& tensor, bool is_read, bool is_written);

  Backend& backend_;
  const Values& inputs_;
  const std::map<std::string, std::string, std::less<>>& aliases_;
  std::map<std::string, std::unique_ptr<Guarded>, std::less<>> memory_;
};

/// Validates, prepares and runs the op once.
template <class Op>
Execution execute(Backend& backend, const OpCase<Op>& test) {
  CaseMemory memory(backend, test.inputs, test.aliases);
  const Op bound = test.op.map(memory);
  validate(bound);
  backend.prepare(bound);
  backend.run(bound);
  backend.synchronize();
  return memory.collect(test.name);
}

/// Fills every float tensor that the op reads and `inputs` lacks with standard normal values of its dtype.
class RandomFill {
 public:
  RandomFill(Values& values, uint64_t seed) : values_(values), seed_(seed) {}

  Tensor in(std::string_view name, const Tensor& tensor);
  Tensor out(std::string_view, const Tensor& tensor) { return tensor; }
  Tensor inout(std::string_view name, const Tensor& tensor) { return in(name, tensor); }

 private:
  Values& values_;
  uint64_t seed_;
};

template <class Op>
void fill_at_random(OpCase<Op>& test, uint64_t seed) {
  static_cast<void>(test.op.map(RandomFill(test.inputs, seed)));
}

}  // namespace litespark::test
