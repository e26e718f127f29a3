// SPDX-License-Identifier: Apache-2.0
// The one place that knows which backends this program was linked with.
#pragma once

#include <memory>
#include <string>

#include "ops/backend.h"
#include "spec/run_config.h"

namespace litespark::cli {

/// "cpu", "cuda", "cpu, cuda".
std::string linked_backends();
/// Usable GPUs; 0 without the CUDA backend.
int num_gpus();
/// Whether make_backend would choose CUDA.
bool wants_cuda(const RunConfig& config);

/// The backend that the device section asks for. Throws ConfigError when it is not linked or its device is not there.
std::unique_ptr<Backend> make_backend(const RunConfig& config);

}  // namespace litespark::cli
