// SPDX-License-Identifier: Apache-2.0
// One case on the CPU in every way it can run: each instruction set of this machine, 1, 2 and 4 threads, all with the
// same bits (fault:C7).
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
  for (const CpuIsa isa : {CpuIsa::kGeneric, CpuIsa::kAvx2, CpuIsa::kAvx512, CpuIsa::kAvx512Bf16}) {
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

/// Runs the case on every instruction set and thread count; reports differing bits. Returns the first execution.
template <class Op>
Execution execute_on_cpu(const OpCase<Op>& test) {
  Execution first;
  for (const CpuIsa isa : usable_isas()) {
    for (const int threads : {1, 2, 4}) {
      Backend& backend = cpu_backend(isa, threads);
      Execution execution = execute(backend, test);
      if (first.bytes.empty()) {
        first = std::move(execution);
        continue;
      }
      for (const auto& [name, bytes] : first.bytes) {
        EXPECT_EQ(execution.bytes[name], bytes) << test.name << ": " << name << " differs on " << backend.name();
      }
    }
  }
  return first;
}

}  // namespace litespark::test
