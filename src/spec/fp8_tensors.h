// SPDX-License-Identifier: Apache-2.0
// What 8-bit matmuls need beside the activations: copies of the blocks' weights, and scales.
#pragma once

#include "spec/program.h"

namespace litespark {

/// Fills Program::fp8 and ParamTensors::fp8. Throws ConfigError for shapes and backends that 8-bit matmuls do not fit.
void declare_fp8_tensors(Program& program, const BackendSizes& sizes);

/// Whether AdamW leaves the weights' largest magnitudes: one rank, one scale a tensor. Ranks update pieces of weights.
bool optimizer_measures_weights(const Program& program);

/// Measures the weights that push_fp8_weights brings to 8 bits.
void push_fp8_magnitudes(Tape& tape, const Program& program);

/// Brings the blocks' weights to 8 bits, measured first unless the optimizer does that; nothing without
/// ProgramOptions::fp8. Part of the pack tape.
void push_fp8_weights(Tape& tape, const Program& program);

}  // namespace litespark
