// SPDX-License-Identifier: Apache-2.0
#include "support/conformance.h"

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

}  // namespace litespark::test
