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

/// The backend that the device section asks for. `ordinal`: which of the GPUs that this process sees. Ranks of one
/// machine share its cores where device.threads leaves them open. Throws ConfigError when it is not linked or its
/// device is not there.
std::unique_ptr<Backend> make_backend(const RunConfig& config, int ordinal = 0);
/// What a communicator orders its calls against; nullptr on the CPU.
void* compute_stream_of(const Backend& backend);

}  // namespace litespark::cli
