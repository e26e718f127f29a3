// SPDX-License-Identifier: Apache-2.0
#include "support/conformance.h"

#include <algorithm>

#include "support/tolerance.h"

namespace litespark::test {

void expect_kernel_rule(const std::string& case_name, const Execution& execution, const Values& truth,
                        const Values& plain) {
  for (const auto& [name, expected] : truth.tensors) {
    const DType dtype = execution.dtypes.at(name);
    std::vector<double> rounded = plain.at(name);
    for (double& value : rounded) value = round_to(dtype, value);
    const std::string violation =
        kernel_rule_violation(compare(execution.outputs.at(name), expected), compare(rounded, expected), dtype);
    EXPECT_EQ(violation, "") << case_name << ": " << name;
  }
}

void expect_exact(const std::string& case_name, const Execution& execution, const Values& expected) {
  for (const auto& [name, values] : expected.tensors) {
    EXPECT_EQ(execution.bytes.at(name), encode(execution.dtypes.at(name), values)) << case_name << ": " << name;
  }
}

void expect_same_bits(const std::string& what, const Execution& execution, const Execution& other) {
  for (const auto& [name, bytes] : other.bytes) {
    if (name == "scratch") continue;  // what an op leaves there is nobody's
    const auto& mine = execution.bytes.at(name);
    const auto differing = std::mismatch(mine.begin(), mine.end(), bytes.begin(), bytes.end()).first - mine.begin();
    EXPECT_TRUE(mine == bytes) << what << ": " << name << " differs from byte " << differing << " on";
  }
}

void expect_close(const std::string& what, const Execution& execution, const Execution& other) {
  for (const auto& [name, dtype] : other.dtypes) {
    if (dtype != DType::kF32 && dtype != DType::kBF16) continue;
    const ErrorStats stats = compare(execution.outputs.at(name), other.outputs.at(name));
    const double limit = (dtype == DType::kBF16 ? 0x1p-7 : 1e-5) * stats.largest_expected;
    EXPECT_TRUE(stats.kind_mismatches == 0 && stats.max_abs <= limit)
        << what << ": " << name << ", " << stats.to_string();
  }
}

}  // namespace litespark::test
