// SPDX-License-Identifier: Apache-2.0
// The optimizer's state of several ranks brought together on the host, in the order of the parameter table: what a
// checkpoint holds, whatever the number of ranks.
#pragma once

#include <span>

#include "model/executor.h"

namespace litespark {

/// A moment of all parameters as f32, in flat order of Program::whole_params, [its flat_size]. All ranks call it
/// between two steps, in the same order; those that give an empty `flat` only send. The gradients' memory is used on
/// the way.
void gather_moment(Executor& executor, TensorId ParamTensors::*moment, std::span<float> flat);

/// What one data rank has not told the others of its gradients yet (Program::residual), likewise; 0 for parameters
/// whose gradients it does not tell.
void gather_residual(Executor& executor, int64_t data_rank, std::span<float> flat);

/// The f32 values of all parameters, exact in every form, likewise. Weights are whole on every rank afterwards.
void gather_masters(Executor& executor, std::span<float> flat);

}  // namespace litespark
