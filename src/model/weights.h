// SPDX-License-Identifier: Apache-2.0
// The values of parameters: drawn from a seed, or moved in and out as plain f32 arrays. Works on the parameter table;
// packed copies follow by Phase::kPack.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "model/executor.h"

namespace litespark {

/// Masters from the seed: normal(0, init_std), ones or zeros, as the table says. Each parameter has its own random
/// stream, so its values do not depend on the others. Runs Phase::kPack.
void initialise_weights(Executor& executor, uint64_t seed);

/// Sets one parameter, a row of Program::whole_params, from its f32 values, in whatever form the program keeps it
/// (MasterWeights), the bf16 copy beside its master included; of a cut parameter this rank takes its part, and of one
/// that another pipeline stage holds nothing. Call pack_weights after the last one.
void set_parameter(Executor& executor, int64_t param, std::span<const float> values);
/// The f32 values of one parameter, a row of Program::params, as this rank stores it, exact in every form. `side`: read
/// beside the ops, by another thread. Throws InternalError when this rank holds only a piece of them (model/gather.h).
void read_parameter(const Executor& executor, int64_t param, std::span<float> values, SideReader* side = nullptr);
std::vector<float> get_parameter(const Executor& executor, int64_t param);
/// The unnormalised gradient that the last backward left.
std::vector<float> get_gradient(const Executor& executor, int64_t param);

/// A whole f32 or bf16 tensor from f32 values (rounded to nearest even) and back (exact).
void write_floats(Executor& executor, TensorId id, std::span<const float> values);
void read_floats(const Executor& executor, TensorId id, std::span<float> values, SideReader* side = nullptr);

/// Masters from a Hugging Face folder, checked against the table first. Runs Phase::kPack.
void load_weights(Executor& executor, const std::filesystem::path& folder);

/// After a step of several ranks, before anything but the next step reads weights: brings every rank what the others
/// updated. All ranks call it; nothing where packing has done so, and with one rank.
void make_weights_whole(Executor& executor);

/// Refreshes every packed copy.
void pack_weights(Executor& executor);

}  // namespace litespark
