// SPDX-License-Identifier: Apache-2.0
// What an op's execution on any backend must keep against its reference.
#pragma once

#include <string>

#include "support/op_case.h"

namespace litespark::test {

/// Reports every output that breaks the kernel error rule (support/tolerance.h). `truth` and `plain` hold an op's
/// outputs by name as reference::evaluate<double> and <float> give them; outputs that they lack are not looked at.
void expect_kernel_rule(const std::string& case_name, const Execution& execution, const Values& truth,
                        const Values& plain);

/// Reports outputs that are not exactly `expected`, rounded to their dtype.
void expect_exact(const std::string& case_name, const Execution& execution, const Values& expected);

/// Reports written tensors, scratch aside, whose bytes differ.
void expect_same_bits(const std::string& what, const Execution& execution, const Execution& other);

/// Reports float outputs that differ by more than a few roundings of the largest value, or in where they are NaN or
/// infinite; integers and states are not looked at.
void expect_close(const std::string& what, const Execution& execution, const Execution& other);

}  // namespace litespark::test
