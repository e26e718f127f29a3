// SPDX-License-Identifier: Apache-2.0
// Copies of weights in a matmul library's layout, where the backend wants them: one each for the products of forward
// and backward. Either they stay (packed once a step), or each is made in front of the product that reads it and its
// memory is free behind it. The bits are the same; with several micro-batches a step the second way packs more often.
#pragma once

#include "spec/program.h"

namespace litespark {

/// Resident copies of every multiplied weight, unless ProgramOptions::packs_on_use.
void declare_packed_copies(Program& program, const BackendSizes& sizes);

/// Fills the resident copies. Part of the pack tape.
void push_resident_packs(Tape& tape, Program& program);

/// A copy of parameter `index` made here, which lives until its last reader on this tape. `name`: of the tensor.
TensorId pack_on_use(Tape& tape, Program& program, const BackendSizes& sizes, size_t index, op::PackForm form,
                     const std::string& name);

}  // namespace litespark
