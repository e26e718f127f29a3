// SPDX-License-Identifier: Apache-2.0
// One case on the CPU in every way it can run: each instruction set of this machine with 1, 2 and 4 threads, and the
// same bits for every number of threads (fault:C7).
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "ops/cpu/cpu_backend.h"
#include "support/conformance.h"
#include "support/op_case.h"

namespace litespark::test {

/// From generic up to what this processor has.
inline std::vector<CpuIsa> usable_isas() {
  std::vector<CpuIsa> isas;
  for (const CpuIsa isa : {CpuIsa::kGeneric, CpuIsa::kAvx2, CpuIsa::kAvx512, CpuIsa::kAvx512Bf16, CpuIsa::kAmx}) {
    if (isa <= detect_cpu_isa()) isas.push_back(isa);
  }
  return isas;
}

/// Made once and kept.
inline Backend& cpu_backend(CpuIsa isa, int threads) {
  static std::map<std::pair<CpuIsa, int>, std::unique_ptr<Backend>> backends;
  std::unique_ptr<Backend>& backend = backends[{isa, threads}];
  if (backend == nullptr) backend = make_cpu_backend({.threads = threads, .max_isa = isa});
  return *backend;
}

/// Runs the case with 1, 2 and 4 threads; reports differing bits.
template <class Op>
Execution execute_with_threads(CpuIsa isa, const OpCase<Op>& test) {
  Execution first = execute(cpu_backend(isa, 1), test);
  for (const int threads : {2, 4}) {
    expect_same_bits(test.name + " on " + cpu_backend(isa, threads).name(), execute(cpu_backend(isa, threads), test),
                     first);
  }
  return first;
}

/// Runs the case on every instruction set; reports differing bits between those that fuse multiply-adds, and a generic
/// result that is further off than rounding explains. Returns what the best instruction set gave.
template <class Op>
Execution execute_on_cpu(const OpCase<Op>& test) {
  const Execution generic = execute_with_threads(CpuIsa::kGeneric, test);
  Execution best = generic;
  for (const CpuIsa isa : usable_isas()) {
    if (isa == CpuIsa::kGeneric) continue;
    Execution execution = execute_with_threads(isa, test);
    if (isa != CpuIsa::kAvx2) expect_same_bits(test.name + " on " + cpu_backend(isa, 1).name(), execution, best);
    best = std::move(execution);
  }
  expect_close(test.name + " on generic", generic, best);
  return best;
}

/// The kernel error rule on every instruction set, with the references' two evaluations of the same case.
template <class Op>
void expect_kernel_rule_on_cpu(const OpCase<Op>& test, const Values& truth, const Values& plain) {
  expect_kernel_rule(test.name, execute_on_cpu(test), truth, plain);
  expect_kernel_rule(test.name + " on generic", execute(cpu_backend(CpuIsa::kGeneric, 1), test), truth, plain);
}

}  // namespace litespark::test
