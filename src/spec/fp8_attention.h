// SPDX-License-Identifier: Apache-2.0
// What attention's forward on 8-bit floats needs beside the activations: a scale a layer.
#pragma once

#include "spec/program.h"

namespace litespark {

/// Fills Program::fp8's slots of attention. Throws ConfigError for what 8-bit floats do not fit: a model, a device,
/// ranks that share a model.
void declare_fp8_attention(Program& program, const BackendSizes& sizes);

}  // namespace litespark
